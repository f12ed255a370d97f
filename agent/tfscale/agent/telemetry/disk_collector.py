"""Collector of the disk that holds the task's working folder: free space, and rates of reading and writing."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from pathlib import Path

from tfscale.agent.collector_thread import CollectorThread
from tfscale.agent.process.kernel_file import KernelFile
from tfscale.core.records.host_sample import Disk

_PERIOD = 4.0
"""Seconds between two samples: waking a thread costs ten times its sample. A folder takes minutes to fill, and of
reading and writing only the mean is shown."""
_SECTOR_BYTES = 512
"""Unit of /proc/diskstats, whatever the disk's own sectors are."""

_Moved = tuple[int, int]
"""Bytes read and written since the host's start."""


class DiskCollector(CollectorThread[Disk | None]):
    """Collector of one folder's disk. A file server that does not answer blocks only this thread.

    Rates count from the previous sample. They are None where the folder is on no block device of this host: on a file
    server, in memory, or in the overlay of a container.
    """

    def __init__(self, folder: Path, proc: Path = Path("/proc"), period: float = _PERIOD) -> None:
        super().__init__("disk", None, period)
        self._folder, self._proc = folder, proc

    def _samples(self) -> Generator[Disk | None]:
        counters = KernelFile(self._proc / "diskstats")  # closed with the generator
        before: tuple[float, _Moved] | None = None
        while True:
            try:
                space, device = os.statvfs(self._folder), self._folder.stat().st_dev
            except OSError:
                before = None
                yield None
                continue
            now, moved = time.monotonic(), _moved(counters, device)
            read, written = _rates(before, now, moved)
            before = None if moved is None else (now, moved)
            # What only root may use is not free for a task.
            yield Disk(space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize, read, written)


def _moved(counters: KernelFile, device: int) -> _Moved | None:
    number = [b"%d" % os.major(device), b"%d" % os.minor(device)]
    rows = (line.split() for line in counters.read_if_there().splitlines())
    row = next((row for row in rows if row[:2] == number), None)
    return None if row is None else (int(row[5]) * _SECTOR_BYTES, int(row[9]) * _SECTOR_BYTES)


def _rates(before: tuple[float, _Moved] | None, now: float, moved: _Moved | None) -> tuple[float | None, float | None]:
    if before is None or moved is None or now <= before[0]:
        return None, None
    read, written = (new - old for new, old in zip(moved, before[1], strict=True))
    # Counters that run backwards are those of another disk under the same number.
    return (None, None) if read < 0 or written < 0 else (read / (now - before[0]), written / (now - before[0]))
