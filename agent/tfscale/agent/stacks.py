"""Asks the probe in the task's process for the Python stacks of its threads."""

# A small file on a local disk.
# ruff: noqa: ASYNC240

from __future__ import annotations

import asyncio
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from tfscale.core.errors import TfscaleError

_PATIENCE = 3.0
_POLL = 0.05
_STILL = 4
"""Looks at the file in a row that find no more in it: a busy host writes with pauses."""
_CUT = "The main thread is not among these: the process has too many threads for faulthandler to write the oldest."
_THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+.*$", re.MULTILINE)


class StackError(TfscaleError):
    """There is no stack to be had; the text says why."""


class SilentError(StackError):
    """The process was asked and has written nothing in time."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A process of the task that writes its stacks when `signal` comes."""

    pid: int
    signal: int


@dataclass(frozen=True, slots=True)
class Stack:
    """The stacks of a process's threads at one moment, the main thread's first."""

    at: float
    pid: int
    text: str


async def take(listener: Listener | None, task_pid: int | None, path: Path) -> Stack:
    """The stacks of a task now. Raises StackError, SilentError where the process does not answer.

    `path` is where the process writes; what it wrote before is removed first, so that the file stays small.
    """
    if task_pid is None:
        raise StackError("the task does not run: there is no stack to show")
    if listener is None:
        raise StackError("no probe listens in the task: it has imported no TensorFlow yet, or was started without one")
    if not _belongs(listener.pid, task_pid):
        raise StackError(f"process {listener.pid}, in which the probe was, is gone: restart the task if it is stuck")
    if not _catches(listener):
        raise StackError(f"process {listener.pid} listens no more: it is ending, or runs another program by now")
    try:
        path.write_text("")
        os.kill(listener.pid, listener.signal)
    except OSError as error:
        raise StackError(f"process {listener.pid} cannot be asked for its stack: {error.strerror}") from None
    text = await _settled(path)
    if not text:
        raise SilentError(
            f"process {listener.pid} wrote no stack in {_PATIENCE:.0f} s: it is stopped, or waits in the kernel"
        )
    return Stack(time.time(), listener.pid, main_first(text))


def main_first(text: str) -> str:
    """The stacks in the order of a reader's interest: `faulthandler` writes the oldest thread, the main one, last."""
    starts = [found.start() for found in _THREAD.finditer(text)]
    if not starts:
        return text
    if text.rstrip().endswith("\n..."):
        return f"{_CUT}\n\n{text.strip()}"
    blocks = [text[start:end].strip() for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    main = _THREAD.sub("Main thread (most recent call first):", blocks.pop())
    return "\n\n".join([main, *blocks])


def _belongs(pid: int, task_pid: int) -> bool:
    """Whether a process is the task's or one of its descendants, and not a stranger with the number of a dead one."""
    try:
        process = psutil.Process(pid)
        return task_pid in (pid, *(parent.pid for parent in process.parents()))
    except psutil.Error:
        return False


def _catches(listener: Listener) -> bool:
    """Whether the process has a handler for the signal, which would end it otherwise."""
    try:
        status = Path(f"/proc/{listener.pid}/status").read_text()
    except OSError:
        return False
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (listener.signal - 1) & 1)


async def _settled(path: Path) -> str:
    """What is in the file once it has grown and grows no more; empty when nothing came in time."""
    size, still = 0, 0
    for _ in range(round(_PATIENCE / _POLL)):
        await asyncio.sleep(_POLL)
        now = path.stat().st_size
        still = still + 1 if now == size > 0 else 0
        if still == _STILL:
            break
        size = now
    return path.read_text(errors="replace")
