"""Stacks of all tasks at a hang, grouped by equal stack and written to a file of the run's folder."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol

from tfscale.agent.file_thread import DiskHangs, FileThread
from tfscale.agent.on_demand.stack_requests import StackDump, StackUnavailable
from tfscale.agent.private_file import open_private
from tfscale.core.cluster.many_questions import ask_each
from tfscale.core.cluster.task import Task
from tfscale.core.errors import TfscaleError
from tfscale.core.failure.stacks import equal_stacks
from tfscale.core.text import moment, plural

_AT_ONCE = 32
"""Agents that are asked at once."""
_MOST_TEXT = 64 << 10
"""Characters of one task's stacks that are kept."""
_MOST_FILES = 8
"""Newest files that are kept."""


class Stacked(Protocol):
    """A task that can be asked for its stacks."""

    async def stacks(self) -> str:
        """Return the Python stacks of its threads. Raises StackUnavailable."""


class OwnStacks:
    """The own task, which is asked without its agent."""

    def __init__(self, take_stack: Callable[[], Awaitable[StackDump]]) -> None:
        self._take_stack = take_stack

    async def stacks(self) -> str:
        return (await self._take_stack()).text


class HangFileError(TfscaleError):
    """A file of stacks that cannot be written."""


class HangStacks:
    """Files of stacks in one folder."""

    def __init__(self, folder: Path, tasks: Mapping[Task, Stacked]) -> None:
        self._folder, self._tasks = folder, tasks
        self._files = FileThread()

    async def write(self, event: str) -> Path:
        """Ask all tasks for their stacks, write them down below the event, and return where. Raises HangFileError."""
        stacks = await ask_each(_stacks_of, self._tasks.values(), _AT_ONCE)
        at = time.time()
        text = f"{moment(at)}  {event}\n\n{grouped(dict(zip(self._tasks, stacks, strict=True)))}\n"
        path = self._folder / f"hang-{time.strftime('%Y%m%d-%H%M%S', time.gmtime(at))}.stacks"
        try:
            await self._files.call(lambda: self._put(path, text))
        except (OSError, DiskHangs) as error:
            raise HangFileError(f"{path}: the stacks of a hang cannot be written: {error}") from error
        return path

    def _put(self, path: Path, text: str) -> None:
        with os.fdopen(open_private(str(path), os.O_WRONLY | os.O_TRUNC), "w") as file:
            file.write(text)
        for old in sorted(self._folder.glob("hang-*.stacks"))[:-_MOST_FILES]:
            old.unlink(missing_ok=True)


async def _stacks_of(task: Stacked) -> str:
    """Return the stacks of a task, or why there are none."""
    try:
        return (await task.stacks())[:_MOST_TEXT]
    except StackUnavailable as error:
        return f"no stack: {error}"


def grouped(stacks: Mapping[Task, str]) -> str:
    """Return each stack with its tasks, the most frequent first; stacks that differ only in addresses are equal."""
    headed = (
        f"===== {plural(len(tasks), 'task')}: {', '.join(map(str, tasks))}\n{text}"
        for text, tasks in equal_stacks(stacks)
    )
    return "\n\n".join(headed)
