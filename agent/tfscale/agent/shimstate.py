"""What a shim left on disk, or said over its pipe, as the agent reads it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ShimState:
    """What the shim knows of its task. Start times are the kernel's, in clock ticks since boot: with them and the boot
    a process id is never mistaken for a later process's."""

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
    """Whether the shim was asked to end the task."""
    message: str = ""
    """Why the task could not be started."""
    lost_output: int = 0
    """Bytes of output that the log could not take."""

    @classmethod
    def from_json(cls, text: str | bytes) -> ShimState | None:
        """None for anything that is not a state."""
        try:
            fields = json.loads(text)
            return cls(**{**fields, "argv": tuple(fields["argv"])})
        except (ValueError, TypeError, KeyError):
            return None


def read_state(path: Path) -> ShimState | None:
    """The state that a shim left at `path`, None where there is none."""
    try:
        return ShimState.from_json(path.read_bytes())
    except OSError:
        return None
