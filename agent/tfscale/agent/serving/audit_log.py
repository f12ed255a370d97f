"""Audit log of an agent: each order with its caller, the caller's address, and the result."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import logging
import os
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfscale.agent.file_thread import DiskHangs, FileThread
from tfscale.agent.private_file import open_private
from tfscale.core.text import bounded

_logger = logging.getLogger(__name__)
LARGEST = 4 << 20
"""Bytes at which the file becomes the older one."""
_REFUSED_A_MINUTE = 20
"""Refused orders a minute that are written: refused callers must not fill the file, and so remove other lines."""
_MOST_TEXT = 300
"""Characters of one text of a line."""
_MOST_TASKS = 20
_FAREWELL = 1.0
"""Seconds that the end of the agent waits for a line that is being written."""


class AuditLog:
    """Lines of JSON, written by a thread: a hanging disk holds up no order, and lost lines are counted."""

    def __init__(self, path: Path, largest: int = LARGEST, patience: float = 5.0) -> None:
        self._path, self._largest = path, largest
        self._files = FileThread(patience)
        self._numbers = itertools.count(1)
        self._refused: deque[float] = deque(maxlen=_REFUSED_A_MINUTE)
        self._writing: set[asyncio.Task[None]] = set()
        self._unwritten = 0
        self._has_warned = False
        """True once the agent's log has it that orders cannot be written."""

    def begin(self, who: str, where: str, what: str, tasks: Sequence[str], reason: str) -> AuditedOrder:
        """Return an order of which nothing is written yet."""
        names = [bounded(task, _MOST_TEXT) for task in itertools.islice(tasks, _MOST_TASKS)]
        entry = {
            "order": next(self._numbers),
            "who": bounded(who, _MOST_TEXT),
            "from": bounded(where, _MOST_TEXT),
            "what": bounded(what, _MOST_TEXT),
            "tasks": names if len(tasks) <= _MOST_TASKS else [*names, f"{len(tasks) - _MOST_TASKS} others"],
            "reason": bounded(reason, _MOST_TEXT),
        }
        return AuditedOrder(self, entry)

    def write(self, entry: dict[str, Any], result: str) -> None:
        """Write a line soon."""
        now = time.time()
        if result.startswith("refused"):
            if len(self._refused) == _REFUSED_A_MINUTE and 0 <= now - self._refused[0] < 60:
                self._unwritten += 1
                return
            self._refused.append(now)
        unwritten, self._unwritten = self._unwritten, 0
        missed = {"unwritten": unwritten} if unwritten else {}
        line = json.dumps({"at": round(now, 3), **entry, "result": bounded(result, _MOST_TEXT), **missed})
        job = asyncio.create_task(self._write(f"{line}\n".encode(), unwritten))
        self._writing.add(job)
        job.add_done_callback(self._writing.discard)

    async def close(self) -> None:
        """Wait a moment for lines that are being written."""
        if self._writing:
            await asyncio.wait(self._writing, timeout=_FAREWELL)

    async def _write(self, line: bytes, missed: int) -> None:
        """Write a line, which says how many before it were `missed`."""
        try:
            await self._files.call(lambda: _append(self._path, line, self._largest))
            self._has_warned = False
        except (OSError, DiskHangs) as error:
            self._unwritten += 1 + missed
            if not self._has_warned:
                self._has_warned = True
                why = (error.strerror or "") if isinstance(error, OSError) else str(error)
                _logger.warning("orders cannot be written to %s: %s", self._path, why)


class AuditedOrder:
    """One order, from its arrival to its end."""

    def __init__(self, log: AuditLog, entry: dict[str, Any]) -> None:
        self._log, self._entry = log, entry

    def write(self, result: str) -> None:
        """Write the order with its result so far."""
        self._log.write(self._entry, result)


def _append(path: Path, line: bytes, largest: int) -> None:
    descriptor = open_private(str(path), os.O_WRONLY | os.O_APPEND)
    try:
        if (size := os.fstat(descriptor).st_size) + len(line) > largest:
            path.replace(path.with_name(f"{path.name}.1"))
            os.close(descriptor)
            descriptor, size = open_private(str(path), os.O_WRONLY | os.O_APPEND), 0
        if os.write(descriptor, line) < len(line):
            # A disk takes the part of a line for which it has room.
            os.ftruncate(descriptor, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(descriptor)
