import asyncio
import os
import time
from pathlib import Path

import pytest
from tfscale.agent.cluster import journal as kept
from tfscale.agent.cluster.journal import MOST_GENERATIONS, Intent, Journal, JournalEntry, JournalError
from tfscale.agent.cluster.restart_budget import RestartBudget
from tfscale.agent.file_thread import FileThread


async def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    assert journal.entry == JournalEntry()
    intent = Intent("restart", ("worker:0", "worker:1"), 3, True, "slow", restarted_for="worker:1")
    await journal.update(generation=3, intent=intent)
    assert Journal(tmp_path / "j").entry == JournalEntry(generation=3, intent=intent)
    await journal.update(intent=None, drained=True)
    assert Journal(tmp_path / "j").entry == JournalEntry(generation=3, drained=True)


@pytest.mark.parametrize(("boot", "since"), [("this one", 30.0), ("another one", 0.0)])
async def test_counts_age_by_a_clock_that_nobody_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot: str, since: float
) -> None:
    now = 5000.0
    monkeypatch.setattr(kept, "steady_time", lambda: now)
    journal, budget = Journal(tmp_path / "j"), RestartBudget("worker:0").after_restart(now - 10.0, 2)
    await journal.count(lambda counts: counts.with_budget(budget))
    monkeypatch.setattr(time, "time", lambda: 0.0)
    if boot == "this one":
        now += since
    else:  # whose clock begins again, after nobody knows how long
        monkeypatch.setattr(kept, "boot_id", lambda: boot)
        now = 7.0
    (read,) = Journal(tmp_path / "j").entry.counts.budgets
    assert now - read.restarts[0] == pytest.approx(10.0 + since, abs=0.1)


async def test_a_write_that_fails_changes_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "gone" / "j")
    with pytest.raises(JournalError, match="cannot be written"):
        await journal.update(generation=3)
    assert journal.entry.generation == 0


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"generation": 1}', '{"intent": null, "generation": -3}', '{"intent": null, "attempt": "x"}'],
)
async def test_a_damaged_journal_is_not_taken_for_a_new_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "j").write_text(text)
    with pytest.raises(JournalError, match="cannot be read"):
        Journal(tmp_path / "j")


async def test_a_journal_in_which_a_digit_has_changed_is_not_believed(tmp_path: Path) -> None:
    await Journal(tmp_path / "j").update(generation=12)
    (tmp_path / "j").write_text((tmp_path / "j").read_text().replace("12", "13", 1))
    with pytest.raises(JournalError, match="its checksum is wrong"):
        Journal(tmp_path / "j")


async def test_fields_of_a_later_version_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "j").write_text('{"version": 9, "intent": null, "generation": 3, "colour": 3}')
    assert Journal(tmp_path / "j").entry.generation == 3


async def test_the_generation_never_falls(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    await asyncio.gather(journal.update(generation=5), journal.update(generation=4, attempt=2))
    assert (journal.entry.generation, journal.entry.attempt) == (5, 2)


async def test_a_generation_that_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    await journal.update(generation=MOST_GENERATIONS)
    with pytest.raises(JournalError, match="there is no generation 9007199254740993"):
        await journal.update(generation=MOST_GENERATIONS + 1)
    assert Journal(tmp_path / "j").entry.generation == MOST_GENERATIONS


async def test_a_journal_on_a_disk_that_hangs_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal._files = FileThread(patience=0.3)
    (tmp_path / "j.new").unlink(missing_ok=True)
    os.mkfifo(tmp_path / "j.new")  # opening it waits for a reader
    with pytest.raises(JournalError, match=r"the disk has not answered for 0\.3 s"):
        await journal.update(generation=3)
    with (tmp_path / "j.new").open("rb") as reader:
        reader.read()
    await asyncio.sleep(0.2)
    assert journal.entry.generation == 0 and not (tmp_path / "j").exists()


async def test_a_journal_is_for_its_user_alone_and_follows_no_link(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    before = os.umask(0)
    try:
        await journal.update(generation=3)
    finally:
        os.umask(before)
    assert (tmp_path / "j").stat().st_mode & 0o777 == 0o600
    (tmp_path / "j.new").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JournalError, match="Too many levels of symbolic links"):
        await journal.update(generation=4)
    assert not (tmp_path / "elsewhere").exists()
