"""Journal of an agent about its task and, for the lead, about the cluster: one JSON file, replaced as a whole.

It is written before the agent acts, so the next agent of the same task can go on where this one was killed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tfscale.agent.checked_json import checked, with_checksum
from tfscale.agent.cluster.recovery_counts import RecoveryCounts, parse_counts
from tfscale.agent.file_thread import DiskHangs, FileThread
from tfscale.agent.kept_file import give_room, keep, set_room_aside
from tfscale.agent.process.sessions import boot_id
from tfscale.agent.process.steady_clock import steady_time
from tfscale.core.errors import TfscaleError
from tfscale.core.records.task_status import Reason

_VERSION = 1
"""Version of the file. Fields that a reader does not know are ignored."""
MOST_GENERATIONS = 1 << 53
"""Largest generation: all programs that read JSON numbers read it alike."""


class JournalError(TfscaleError):
    """A journal that cannot be read or written."""


@dataclass(frozen=True, slots=True)
class Intent:
    """Command of the lead to several tasks that is not finished."""

    verb: str
    """`restart`, `start`, `stop` or `finish`."""
    tasks: tuple[str, ...]
    generation: int
    starting: bool
    """True once all tasks of older generations have ended."""
    reason: str
    placement: str = ""
    """Placement to which the tasks move between their stop and their start, as JSON; empty where the tasks stay."""
    restarted_for: str = ""
    """Name of the slow task for whose sake the policy restarts; empty for any other reason."""

    @property
    def why(self) -> Reason:
        """Reason that each task of the command is given."""
        return Reason(self.reason, self.restarted_for)


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """Everything that must survive an agent. A number of 0 means none so far."""

    generation: int = 0
    """Newest generation that this agent has issued or accepted; requests with an older one are refused."""
    task_generation: int = 0
    """Generation of the task's last start."""
    attempt: int = 0
    """Number of the task's last start within `task_generation`."""
    socket: str | None = None
    """Path of the socket on which the task's last start reports."""
    drained: bool = False
    """True if the agent ended its task and then itself, so that the next agent starts cold."""
    ended_by: str | None = None
    """Verb of the command that ended the task for good, until its next start."""
    intent: Intent | None = None
    commanded: int = 0
    """Generation of the newest command that the own task was given."""
    counts: RecoveryCounts = field(default_factory=RecoveryCounts)
    """Restarts that are left, failures of hosts, and tasks that were restarted for being slow."""


class Journal:
    """Entry that is kept on disk. Raises JournalError if it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files = FileThread()
        self._writing = asyncio.Lock()
        self.entry = self._read()

    async def update(self, **changes: Any) -> None:
        """Change fields of the entry, on disk first; the generation never falls. Raises JournalError."""
        await self.count(lambda counts: counts, **changes)

    async def count(self, counted: Callable[[RecoveryCounts], RecoveryCounts], **changes: Any) -> None:
        """Change the counts by a function of them, and other fields with them, as `update` does."""
        async with self._writing:
            entry = replace(self.entry, counts=counted(self.entry.counts), **changes)
            entry = replace(entry, generation=max(entry.generation, self.entry.generation))
            if entry.generation > MOST_GENERATIONS:
                raise JournalError(f"there is no generation {entry.generation}: {MOST_GENERATIONS} is the last")
            if entry == self.entry:
                return
            await self._put(entry)
            self.entry = entry

    async def check(self) -> None:
        """Raise JournalError where the entry could not be written now, so that nothing is begun in vain.

        The room for what begins then is set aside: a disk that fills up meanwhile does not prevent the start.
        """
        try:
            await set_room_aside(self._files, self._path)
        except (OSError, DiskHangs) as error:
            raise JournalError(f"{self._path}: cannot be written: {error}") from error

    async def give_room(self) -> None:
        """Give the room that `check` has set aside to the shim that is about to start."""
        with contextlib.suppress(OSError, DiskHangs):
            await give_room(self._files, self._path)

    async def _put(self, entry: JournalEntry) -> None:
        # Ages, and when they were right: the clock of this boot cannot be set, and says nothing to the next boot.
        now = steady_time()
        clock = {"counts": entry.counts.aged(now), "boot": boot_id(), "steady": now}
        text = with_checksum({"version": _VERSION, **asdict(entry), **clock})
        try:
            await keep(self._files, self._path, text)
        except (OSError, DiskHangs) as error:
            raise JournalError(f"{self._path}: cannot be written: {error}") from error

    def _read(self) -> JournalEntry:
        try:
            return _entry(checked(self._path.read_bytes()))
        except FileNotFoundError:
            return JournalEntry()
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise JournalError(
                f"{self._path}: cannot be read ({error}): mend it, or remove it to begin at generation 1"
            ) from error


def _entry(given: dict[str, Any]) -> JournalEntry:
    """Return the entry of an object, without the fields of a later version. Raises ValueError for wrong values."""
    known = _known(JournalEntry, given)
    if known["intent"] is not None:
        intent = _known(Intent, known["intent"])
        known["intent"] = Intent(**{**intent, "tasks": tuple(intent["tasks"])})
    known["counts"] = parse_counts(known.get("counts", {}), steady_time() - _since_written(given))
    entry = JournalEntry(**known)
    numbers = (entry.generation, entry.task_generation, entry.attempt, entry.commanded)
    if not all(isinstance(number, int) and 0 <= number <= MOST_GENERATIONS for number in numbers):
        raise ValueError(f"numbers out of range: {numbers}")
    return entry


def _since_written(given: dict[str, Any]) -> float:
    """Return the seconds since an entry was written; 0 for one of another boot, since when nobody knows."""
    return max(0.0, steady_time() - float(given["steady"])) if given.get("boot") == boot_id() else 0.0


def _known(kind: type[Any], given: dict[str, Any]) -> dict[str, Any]:
    return {each.name: given[each.name] for each in fields(kind) if each.name in given}
