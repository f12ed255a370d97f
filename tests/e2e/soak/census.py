"""Threads, open files and memory of agents and consoles in the course of a soak."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import psutil

MORE_THREADS, MORE_FILES = 3, 8
"""Threads and files by which one may have more in the end than before: those of calls and connections that come and go.
A move that leaves the files of the daemon before shows: these are nine."""
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


def taken(pid: int) -> Taken | None:
    """Return what a process takes now; None where it has ended."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            return Taken(pid, process.num_threads(), process.num_fds(), process.memory_info().rss / 1e6)
    except psutil.Error:
        return None


def grown(first: Mapping[str, Taken], last: Mapping[str, Taken]) -> Iterator[str]:
    """Yield what has grown. An agent is compared with the largest one: which of them holds no task changes."""
    agents = [each for name, each in first.items() if name.startswith("agent")]
    for name, now in last.items():
        before = agents if name.startswith("agent") else [first.get(name, now)]
        if now.threads > (most := max(each.threads for each in before)) + MORE_THREADS:
            yield f"the {name} has {now.threads} threads, and at most {most} before"
        if now.files > (most := max(each.files for each in before)) + MORE_FILES:
            yield f"the {name} has {now.files} open files, and at most {most} before"
        if now.memory > (size := max(each.memory for each in before)) * (1 + SHARE) + MORE_MEMORY:
            yield f"the {name} takes {now.memory:.0f} MB, and at most {size:.0f} before"


def table(samples: Sequence[Mapping[str, Taken]], steady: Sequence[str]) -> Iterator[str]:
    """Yield lines of a Markdown table: the first sample, the middle one, and the last."""
    yield "| | threads | open files | memory (MB) |"
    yield "| --- | --- | --- | --- |"
    moments = (samples[0], samples[len(samples) // 2], samples[-1])
    for name in samples[-1]:
        row = [each[name] for each in moments if name in each]
        kept = " (one process)" if name in steady else ""
        counts = [" / ".join(str(getattr(each, what)) for each in row) for what in ("threads", "files")]
        yield f"| {name}{kept} | {' | '.join(counts)} | {' / '.join(f'{each.memory:.0f}' for each in row)} |"
