"""Requests for the Python stacks of the threads in the task's process, which its probe writes."""

from __future__ import annotations

import asyncio
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from tfscale.agent.file_thread import DiskHangs, FileThread
from tfscale.agent.private_file import open_private
from tfscale.core.errors import TfscaleError

_TIMEOUT = 3.0
"""Seconds for the process to write its stacks."""
_POLL = 0.05
"""Seconds between two reads of the file's size."""
_UNCHANGED_POLLS = 4
"""Polls in a row with the same size, after which the file is complete: a busy host writes with pauses."""
_MAIN_THREAD_MISSING = (
    "The main thread is not among these: the process has too many threads for faulthandler to write the oldest."
)
_THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+.*$", re.MULTILINE)


class StackUnavailable(TfscaleError):
    """A stack that cannot be read; the text says why."""


class StackTimeout(StackUnavailable):
    """A stack that was requested from the process, and not written in time."""


@dataclass(frozen=True, slots=True)
class StackListener:
    """Process of the task that writes its stacks when it gets `signal`."""

    pid: int
    signal: int


@dataclass(frozen=True, slots=True)
class StackDump:
    """Stacks of a process's threads at `at` (Unix seconds), the main thread's first."""

    at: float
    pid: int
    text: str


async def dump_stacks(listener: StackListener | None, task_pid: int | None, path: Path, files: FileThread) -> StackDump:
    """Ask a task for its stacks and return them. Raises StackUnavailable.

    The process writes to the file at `path`, which is emptied first, so that it stays small. While its disk hangs the
    process is not asked: its training would wait for the disk, too.
    """
    if task_pid is None:
        raise StackUnavailable("the task does not run: there is no stack to show")
    if listener is None:
        raise StackUnavailable(
            "no probe listens in the task: it has imported no TensorFlow yet, or was started without one"
        )
    if not is_of_task(listener.pid, task_pid):
        raise StackUnavailable(
            f"process {listener.pid}, in which the probe was, is gone: restart the task if it is stuck"
        )
    if not _handles_signal(listener):
        raise StackUnavailable(f"process {listener.pid} listens no more: it is ending, or runs another program by now")
    try:
        await files.call(lambda: os.close(open_private(str(path), os.O_WRONLY | os.O_TRUNC)))
        os.kill(listener.pid, listener.signal)
    except (OSError, DiskHangs) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise StackUnavailable(f"process {listener.pid} cannot be asked for its stack: {why}") from None
    try:
        text = await _read_when_complete(path, files)
    except (OSError, DiskHangs) as error:
        raise StackUnavailable(f"the stack of process {listener.pid} cannot be read: {error}") from None
    if not text:
        raise StackTimeout(
            f"process {listener.pid} wrote no stack in {_TIMEOUT:.0f} s: it is stopped, or waits in the kernel"
        )
    return StackDump(time.time(), listener.pid, main_first(text))


def main_first(text: str) -> str:
    """Put the main thread's stack first: `faulthandler` writes the oldest thread, the main thread, last."""
    starts = [match.start() for match in _THREAD.finditer(text)]
    if not starts:
        return text
    if text.rstrip().endswith("\n..."):
        return f"{_MAIN_THREAD_MISSING}\n\n{text.strip()}"
    blocks = [text[start:end].strip() for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    main = _THREAD.sub("Main thread (most recent call first):", blocks.pop())
    return "\n\n".join([main, *blocks])


def is_of_task(pid: int, task_pid: int) -> bool:
    """Decide whether a process is the task's or a descendant's, and no stranger with a reused process id."""
    try:
        process = psutil.Process(pid)
        return task_pid in (pid, *(parent.pid for parent in process.parents()))
    except psutil.Error:
        return False


def _handles_signal(listener: StackListener) -> bool:
    """Decide whether the process has a handler for the signal; without it the signal would end the process."""
    try:
        status = Path(f"/proc/{listener.pid}/status").read_text()
    except OSError:
        return False
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (listener.signal - 1) & 1)


async def _read_when_complete(path: Path, files: FileThread) -> str:
    """Return the file's text once it has stopped growing; empty if nothing was written in time.

    Raises OSError and DiskHangs.
    """
    size, unchanged = 0, 0
    for _ in range(round(_TIMEOUT / _POLL)):
        await asyncio.sleep(_POLL)
        now = await files.call(lambda: path.stat().st_size)
        unchanged = unchanged + 1 if now == size > 0 else 0
        if unchanged == _UNCHANGED_POLLS:
            break
        size = now
    return await files.call(lambda: path.read_text(errors="replace"))
