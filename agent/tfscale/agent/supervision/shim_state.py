"""State that a shim writes to its file and sends over its pipe, as the agent reads it."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from pathlib import Path

from tfscale.agent.checked_json import checked

_MOST = 1 << 53
"""Largest number that all readers of JSON read alike."""
_MOST_CODE = (1 << 31) - 1
_MOST_SIGNAL = 64


@dataclass(frozen=True, slots=True)
class ShimState:
    """A shim's knowledge of itself and its task.

    Start times are the kernel's, in clock ticks since boot: with them and the boot's identity, a process id is never
    mistaken for a later process's.
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
    directory: str = ""
    """Folder in which the task was started; empty in a state of an earlier version."""
    restarted_for: str = ""
    """Name of the slow task for whose sake the policy made this start; empty for any other reason."""
    lost_output: int = 0
    """Bytes of output that could not be written to the log."""

    @classmethod
    def from_json(cls, text: str | bytes) -> ShimState | None:
        """Parse a state, also with fields of a later version; return None for any other text."""
        try:
            given = checked(text)
            known = {field.name: given[field.name] for field in fields(cls) if field.name in given}
            state = cls(**{**known, "argv": tuple(given["argv"])})
        except (ValueError, TypeError, KeyError):
            return None
        return state if _makes_sense(state) else None


def _makes_sense(state: ShimState) -> bool:
    """Return whether each field is of its type, and no number larger than real numbers are."""
    numbers = (state.shim_pid, state.shim_started, state.generation, state.attempt, state.lost_output)
    optional = (state.task_pid, state.task_started)
    return (
        all(
            isinstance(text, str)
            for text in (state.boot, state.message, state.directory, state.restarted_for, *state.argv)
        )
        and isinstance(state.requested, bool)
        and all(_is_whole(number, _MOST) for number in numbers)
        and all(number is None or _is_whole(number, _MOST) for number in optional)
        and all(at is None or _is_time(at) for at in (state.started, state.ended))
        and (state.code is None or _is_whole(state.code, _MOST_CODE))
        and (state.signal is None or _is_whole(state.signal, _MOST_SIGNAL))
    )


def _is_whole(number: object, most: int) -> bool:
    return type(number) is int and 0 <= number <= most


def _is_time(at: object) -> bool:
    return isinstance(at, int | float) and math.isfinite(at)


def read_state(path: Path) -> ShimState | None:
    """Read the state at `path`; return None where there is none."""
    try:
        return ShimState.from_json(path.read_bytes())
    except OSError:
        return None
