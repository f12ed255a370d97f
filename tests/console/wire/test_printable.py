"""Text of others, made fit for the screen."""

from __future__ import annotations

from dataclasses import replace

import fakes
from tfscale.console.wire import calls, frames
from tfscale.core.records.task_status import Exit, TaskState, TaskStatus
from tfscale.v1 import agent_pb2


def test_nothing_that_an_agent_says_moves_the_cursor() -> None:
    ended = Exit(1, None, 99.0, log=("\x1b[31mMemoryError: 64 GiB\x1b[0m",))
    sent = replace(fakes.frame(fakes.worker(0)), status=TaskStatus(TaskState.EXITED, exit=ended, reason="\x1b[2J"))
    status = frames.frame(frames.frame_message(sent).SerializeToString()).status
    assert status.exit and status.exit.log == ("MemoryError: 64 GiB",) and status.reason == ""


def test_names_in_stacks_and_profiles_are_printable() -> None:
    stack = agent_pb2.StackReply(text='Thread 1:\n  File "\x1b]0;title\x07a.py"\n')
    assert calls.stack_text(stack) == 'Thread 1:\n  File "a.py"\n'
    profile = calls.profile(agent_pb2.ProfileReply(folder="/a\x1b[2J", file="b\n"), 1.0)
    assert (profile.folder, profile.file) == ("/a", "b ")
