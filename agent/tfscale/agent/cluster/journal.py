"""Journal of an agent about its task and, for the lead, about the cluster: one JSON file, replaced as a whole.

It is written before the agent acts, so the next agent of the same task can go on where this one was killed.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tfscale.core.errors import TfscaleError


class JournalError(TfscaleError):
    """A journal that cannot be read or written."""


@dataclass(frozen=True, slots=True)
class Intent:
    """Command of the lead to several tasks that is not finished."""

    verb: str
    """`restart`, `start` or `stop`."""
    tasks: tuple[str, ...]
    generation: int
    starting: bool
    """True once all tasks of older generations have ended."""
    reason: str


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """Everything that must survive an agent. A number of 0 means: none so far."""

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
    intent: Intent | None = None


class Journal:
    """Entry that is kept on disk. Raises JournalError if it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.entry = self._read()

    def update(self, **changes: Any) -> None:
        """Change fields of the entry, on disk first. Raises JournalError."""
        entry = replace(self.entry, **changes)
        if entry == self.entry:
            return
        temporary = self._path.with_name(self._path.name + ".new")
        try:
            with temporary.open("w") as file:
                json.dump(asdict(entry), file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except OSError as error:
            raise JournalError(f"{self._path}: cannot be written: {error}") from error
        self.entry = entry

    def _read(self) -> JournalEntry:
        try:
            fields = json.loads(self._path.read_text())
            intent = fields.pop("intent")
            if intent is not None:
                intent = Intent(**{**intent, "tasks": tuple(intent["tasks"])})
            return JournalEntry(**fields, intent=intent)
        except FileNotFoundError:
            return JournalEntry()
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise JournalError(
                f"{self._path}: cannot be read ({error}): mend it, or remove it to begin at generation 1"
            ) from error
