"""Text of others, made fit for the screen."""

from __future__ import annotations

from dataclasses import replace

import fakes
import pytest
from tfscale.console.transport.sanitize import printable
from tfscale.console.wire import frames
from tfscale.core.records import Exit, TaskState, TaskStatus


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("a line, 日本語 – as it is", "a line, 日本語 – as it is"),
        ("\x1b[1;31mValueError\x1b[0m: no", "ValueError: no"),
        ("\x1b]0;a title\x07text\x1b[2J", "text"),
        ("one\ttwo\rthree\x00", "one two three "),
        ("cut off \x1b", "cut off "),
    ],
)
def test_only_what_can_be_printed_is_left(written: str, shown: str) -> None:
    assert printable(written) == shown


def test_nothing_that_an_agent_says_moves_the_cursor() -> None:
    ended = Exit(1, None, 99.0, log=("\x1b[31mMemoryError: 64 GiB\x1b[0m",))
    sent = replace(fakes.frame(fakes.worker(0)), status=TaskStatus(TaskState.EXITED, exit=ended, reason="\x1b[2J"))
    status = frames.frame(frames.frame_message(sent).SerializeToString()).status
    assert status.exit and status.exit.log == ("MemoryError: 64 GiB",) and status.reason == ""
