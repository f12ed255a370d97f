from pathlib import Path

import pytest
from tfscale.agent.cluster.journal import Intent, Journal, JournalEntry, JournalError


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    assert journal.entry == JournalEntry()
    intent = Intent("restart", ("worker:0", "worker:1"), 3, True, "slow")
    journal.update(generation=3, intent=intent)
    assert Journal(tmp_path / "j").entry == JournalEntry(generation=3, intent=intent)
    journal.update(intent=None, drained=True)
    assert Journal(tmp_path / "j").entry == JournalEntry(generation=3, drained=True)


def test_a_write_that_fails_changes_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "gone" / "j")
    with pytest.raises(JournalError, match="cannot be written"):
        journal.update(generation=3)
    assert journal.entry.generation == 0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"generation": 1}', '{"intent": null, "colour": 3}'])
def test_a_damaged_journal_is_not_taken_for_a_new_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "j").write_text(text)
    with pytest.raises(JournalError, match="cannot be read"):
        Journal(tmp_path / "j")
