# Small files on a local disk.
# ruff: noqa: ASYNC240
"""Files of stacks: what is in them, who may read them, how many there are."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from tfscale.agent.on_demand.stack_requests import StackUnavailable
from tfscale.agent.recovery.hang_stacks import HangFileError, HangStacks, grouped
from tfscale.core.cluster.task import Task

TASKS = [Task.parse(f"worker:{index}") for index in range(4)]


class FakeTask:
    """A task whose stacks are this text; without one it cannot be asked."""

    def __init__(self, text: str | None) -> None:
        self._text = text

    async def stacks(self) -> str:
        if self._text is None:
            raise StackUnavailable("the task does not run: there is no stack to show")
        return self._text


WAITS = 'Thread 0x7f{:04x} (most recent call first):\n  File "train.py", line 9 in step\n'


def test_equal_stacks_are_told_once_whatever_their_addresses() -> None:
    told = grouped({TASKS[0]: WAITS.format(1), TASKS[1]: "reads its input", TASKS[2]: WAITS.format(2)})
    assert told.splitlines()[0] == "===== 2 tasks: worker:0, worker:2"
    assert told.count("line 9 in step") == 1 and "===== 1 task: worker:1\nreads its input" in told


async def test_a_file_has_the_event_and_the_stacks_of_all(tmp_path: Path) -> None:
    tasks = dict(zip(TASKS, map(FakeTask, (WAITS, WAITS, "x" * 1_000_000, None)), strict=True))
    path = await HangStacks(tmp_path, tasks).write("worker:2 made no step for 65 s")
    text = path.read_text()
    assert "worker:2 made no step for 65 s\n" in text and "no stack: the task does not run" in text
    assert len(text) < 100_000
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_the_newest_files_are_kept(tmp_path: Path) -> None:
    for day in range(10, 22):
        (tmp_path / f"hang-202501{day}-000000.stacks").touch()
    newest = await HangStacks(tmp_path, {}).write("event")
    kept = sorted(path.name for path in tmp_path.glob("hang-*"))
    assert len(kept) == 8 and newest.name == kept[-1]


async def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(HangFileError, match="the stacks of a hang cannot be written"):
        await HangStacks(tmp_path / "gone", {}).write("event")
