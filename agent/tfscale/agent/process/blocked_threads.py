"""Threads of the task that wait in the kernel and cannot be interrupted, not even killed: for a disk, a file server.

A thread that reads a busy disk is found in that state often, but goes on in between: its switches of context tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tfscale.agent.process.kernel_file import contents_of, names_in

LOOK = 2.0
"""Seconds from one look at all threads to the next, which takes about 10 us a thread."""
_RARELY = 10.0
"""Seconds from look to look at a task that makes steps. A TensorFlow process has a hundred threads: looks each 2 s
cost as much as all other samples. A waiting thread is then found a few seconds later."""
_UNINTERRUPTIBLE = b"D"

_Waiting = tuple[int, int, bytes]
"""Process, thread, and its switches of context so far."""


@dataclass(frozen=True, slots=True)
class BlockedThreads:
    """Threads that have waited since the look before, or longer."""

    count: int = 0
    seconds: float | None = None
    """Seconds for which the longest-waiting thread was seen to wait."""
    place: str = ""
    """Kernel function in which the longest-waiting thread waits; empty where the kernel does not tell."""


class BlockedThreadsWatch:
    """Looks at the threads of some processes, now and then."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._looked = -_RARELY
        self._since: dict[_Waiting, float] = {}

    def sample(self, now: float, pids: Iterable[int], *, goes_on: bool = False) -> BlockedThreads:
        """Return the threads of these processes that have been blocked for a while; `now` is of any steady clock.

        `goes_on` tells that the task makes steps.
        """
        if now - self._looked >= (_RARELY if goes_on else LOOK):
            self._looked = now
            self._since = {each: self._since.get(each, now) for pid in pids for each in self._waiting(pid)}
        blocked = [each for each, since in self._since.items() if self._looked - since >= LOOK]
        if not blocked:
            return BlockedThreads()
        first = min(blocked, key=lambda each: self._since[each])
        return BlockedThreads(len(blocked), now - self._since[first], self._place(first))

    def _waiting(self, pid: int) -> Iterator[_Waiting]:
        folder = f"{self._proc}/{pid}/task"
        for thread in names_in(folder):
            if contents_of(f"{folder}/{thread}/stat").rpartition(b") ")[2].startswith(_UNINTERRUPTIBLE):
                status = contents_of(f"{folder}/{thread}/status")
                yield pid, int(thread), status[status.find(b"voluntary_ctxt_switches") :]

    def _place(self, waiting: _Waiting) -> str:
        pid, thread, _ = waiting
        name = contents_of(f"{self._proc}/{pid}/task/{thread}/wchan").decode(errors="replace")
        return "" if name == "0" else name
