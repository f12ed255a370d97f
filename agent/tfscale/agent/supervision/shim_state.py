"""State that a shim writes to its file and sends over its pipe, as the agent reads it."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ShimState:
    """Knowledge of a shim about itself and its task.

    Start times are the kernel's, in clock ticks since boot: with them and the boot's identity, a process id is never
    mistaken for that of a later process.
    """

    boot: str
    shim_pid: int
    shim_started: int
    generation: int
    attempt: int
    argv: tuple[str, ...]
    task_pid: int | None = None
    task_started: int | None = None
    started: float | None = None
    """Unix seconds."""
    code: int | None = None
    signal: int | None = None
    ended: float | None = None
    """Unix seconds; None while the task lives."""
    requested: bool = False
    """True if the shim was asked to end the task."""
    message: str = ""
    """Reason why the task could not be started."""
    lost_output: int = 0
    """Bytes of output that could not be written to the log."""

    @classmethod
    def from_json(cls, text: str | bytes) -> ShimState | None:
        """Parse a state, also one with fields of a later version; return None for any other text."""
        try:
            given = json.loads(text)
            known = {field.name: given[field.name] for field in fields(cls) if field.name in given}
            return cls(**{**known, "argv": tuple(given["argv"])})
        except (ValueError, TypeError, KeyError):
            return None


def read_state(path: Path) -> ShimState | None:
    """Read the state at `path`; return None where there is none."""
    try:
        return ShimState.from_json(path.read_bytes())
    except OSError:
        return None
