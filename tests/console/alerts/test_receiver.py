"""Receivers as settings name them, and where their secrets are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_words import invocation
from tfscale.console.alerts.receiver import Receiver, addresses, parse_receiver, parse_web_address, without_secrets
from tfscale.core.errors import UsageError

SECRET = "T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"


def test_a_file_has_receivers_one_a_line(tmp_path: Path) -> None:
    file = tmp_path / "ops"
    file.write_text(f"# the room of the night shift\nslack://{SECRET}/#ops\n\n  ntfy://topic\n")
    found = addresses([Receiver(f"@{file}", "--notify"), Receiver("json://h", "TFSCALE_NOTIFY")])
    assert [each.address for each in found] == [f"slack://{SECRET}/#ops", "ntfy://topic", "json://h"]
    assert [each.is_exposed for each in (*found, Receiver("json://h", "--notify"))] == [False, False, False, True]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no receiver"),
        ("# nobody\n", "names no receiver"),
        ("slack\n", "ops:1: an address of a receiver begins as slack://"),
        (None, "ops cannot be read: No such file"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "ops"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError, match=said):
        addresses([Receiver(f"@{file}", "--notify")])


@pytest.mark.parametrize("word", [SECRET, "@", "", "slack: //x"])
def test_what_is_no_address_is_refused_without_being_quoted(word: str) -> None:
    for parse in (parse_receiver, parse_web_address):
        with pytest.raises(UsageError, match=r"^--notify: ") as refused:
            parse(word, "--notify")
        assert SECRET not in str(refused.value)


def test_the_text_of_a_receiver_has_no_secret() -> None:
    shown = [str(Receiver(f"{scheme}://user:pass@host:8/{SECRET}?token={SECRET}", "")) for scheme in ("slack", "https")]
    assert shown == ["slack://...", "https://host:8/..."]
    assert SECRET not in repr(Receiver(f"slack://{SECRET}", ""))
    said = f"no such room as {SECRET.split('/')[0]} at https://hooks.slack.com/services/{SECRET}"
    assert (
        without_secrets(said, f"slack://{SECRET}/#ops")
        == "no such room as ... at https://hooks.slack.com/services/.../.../..."
    )


def test_the_printed_settings_have_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("TFSCALE_NOTIFY", "TFSCALE_ESCALATE", "TFSCALE_WEBHOOK")
    typed = invocation("config", **dict.fromkeys(names, f"https://host/{SECRET}"))
    typed.command.run(typed)
    printed = capsys.readouterr().out
    assert 'notify = ["https://host/..."]' in printed and 'webhook = "https://host/..."' in printed
    assert SECRET not in printed
