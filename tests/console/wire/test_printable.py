"""Text of others, made fit for the screen."""

from __future__ import annotations

from dataclasses import replace

import fakes
from tfscale.console.wire import frames
from tfscale.core.records import Exit, TaskState, TaskStatus


def test_nothing_that_an_agent_says_moves_the_cursor() -> None:
    ended = Exit(1, None, 99.0, log=("\x1b[31mMemoryError: 64 GiB\x1b[0m",))
    sent = replace(fakes.frame(fakes.worker(0)), status=TaskStatus(TaskState.EXITED, exit=ended, reason="\x1b[2J"))
    status = frames.frame(frames.frame_message(sent).SerializeToString()).status
    assert status.exit and status.exit.log == ("MemoryError: 64 GiB",) and status.reason == ""
