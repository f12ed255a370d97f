"""Threads, open files and memory of agents and consoles in the course of a soak."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import psutil

MORE_THREADS, MORE_FILES = 3, 6
"""Threads and files by which an agent may have more in the end than before: those of a call that is under way."""
MORE_MEMORY, SHARE = 8.0, 0.15
"""MB and share of it by which the memory may grow."""


@dataclass(frozen=True)
class Taken:
    """Resources of one process at one moment."""

    pid: int
    threads: int
    files: int
    memory: float
    """Resident set in MB."""


def taken(pid: int) -> Taken:
    """Return what a process takes now. Raises psutil.NoSuchProcess."""
    process = psutil.Process(pid)
    with process.oneshot():
        return Taken(pid, process.num_threads(), process.num_fds(), process.memory_info().rss / 1e6)


def grown(name: str, before: Taken, after: Taken) -> Iterator[str]:
    """Yield what has grown."""
    if after.threads > before.threads + MORE_THREADS:
        yield f"{name} has {after.threads} threads, and had {before.threads}"
    if after.files > before.files + MORE_FILES:
        yield f"{name} has {after.files} open files, and had {before.files}"
    if after.memory > before.memory * (1 + SHARE) + MORE_MEMORY:
        yield f"{name} takes {after.memory:.0f} MB, and took {before.memory:.0f}"


def table(samples: Sequence[Mapping[str, Taken]], steady: Sequence[str]) -> Iterator[str]:
    """Yield lines of a Markdown table: the first sample, the middle one, and the last."""
    yield "| | threads | open files | memory (MB) |"
    yield "| --- | --- | --- | --- |"
    moments = (samples[0], samples[len(samples) // 2], samples[-1])
    for name in samples[0]:
        row = [each[name] for each in moments]
        kept = " (one process)" if name in steady else ""
        counts = [" / ".join(str(getattr(each, what)) for each in row) for what in ("threads", "files")]
        yield f"| {name}{kept} | {' | '.join(counts)} | {' / '.join(f'{each.memory:.0f}' for each in row)} |"
