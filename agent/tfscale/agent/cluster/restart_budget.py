"""Restarts that a training has left: within a period, and in a row without progress. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tfscale.core.cluster.recovery_policy import RecoveryPolicy, time_text

_MOST_DOUBLINGS = 30
_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a training, as far as known."""

    checkpoint: float | None = None
    """Time at which its newest checkpoint was written, Unix seconds."""
    step: int | None = None
    """Global step of the optimizer."""

    def with_other(self, other: Progress) -> Progress:
        """Return the newest of both."""
        return Progress(_newest(self.checkpoint, other.checkpoint), _newest(self.step, other.step))

    def is_beyond(self, other: Progress) -> bool:
        return _is_above(self.checkpoint, other.checkpoint) or _is_above(self.step, other.step)


@dataclass(frozen=True, slots=True)
class RestartBudget:
    """Restarts so far of the tasks that restart together; the first of them is its name. Kept in the journal."""

    name: str
    restarts: tuple[float, ...] = ()
    """Times of the restarts within the period, Unix seconds, oldest first."""
    newest: float | None = None
    """Time of the newest restart, however old; None before the first."""
    fruitless: int = 0
    """Restarts in a row that brought no progress."""
    reached: Progress = Progress()
    """Progress before the newest restart."""
    gave_up: str = ""
    """Reason for which no further restart follows until somebody asks for one."""
    generation: int = 0
    """Generation that was given up."""

    def after_end(self, reached: Progress, at: float, policy: RecoveryPolicy) -> RestartBudget:
        """Return the budget after an end at `at` (Unix seconds), before the restart for it.

        A start that lasted longer than the period counts as progress, too: not every program reports its steps.
        """
        fruitless = self.fruitless
        if self.newest is not None:
            is_long = at - self.newest > policy.period
            fruitless = 0 if is_long or reached.is_beyond(self.reached) else fruitless + 1
        within = policy.within_period(self.restarts, at)
        return replace(self, restarts=within, fruitless=fruitless, reached=self.reached.with_other(reached))

    def why_spent(self, policy: RecoveryPolicy, *, needs_progress: bool) -> str:
        """Return why no further restart may follow, empty where one may."""
        if len(self.restarts) >= policy.max_restarts:
            period = time_text(policy.period)
            if policy.max_restarts == 1:
                return f"the only restart within {period} is spent"
            return f"all {policy.max_restarts} restarts within {period} are spent"
        if needs_progress and self.fruitless >= policy.without_progress:
            last = "restart" if self.fruitless == 1 else f"{self.fruitless} restarts"
            return f"the last {last} brought neither a newer checkpoint nor a higher step"
        return ""

    def pause(self, policy: RecoveryPolicy, tries: int = 0) -> float:
        """Return the seconds, without jitter, up to the next restart, or to its next try after `tries` failed ones."""
        return min(policy.most_backoff, policy.backoff * 2.0 ** min(self.fruitless + tries, _MOST_DOUBLINGS))

    def which(self, policy: RecoveryPolicy) -> str:
        """Return the number of the next restart in words."""
        return f"restart {len(self.restarts) + 1} of {policy.max_restarts} within {time_text(policy.period)}"

    def after_restart(self, at: float) -> RestartBudget:
        return replace(self, restarts=(*self.restarts, at), newest=at)

    def given_up(self, why: str, generation: int) -> RestartBudget:
        return replace(self, gave_up=why, generation=generation)


def parse_budget(given: Mapping[str, Any]) -> RestartBudget:
    """Return the budget of an object of the journal. Raises ValueError, TypeError and KeyError for wrong values."""
    reached = given["reached"]
    return RestartBudget(
        name=str(given["name"]),
        restarts=tuple(map(float, given["restarts"])),
        newest=_optional(float, given["newest"]),
        fruitless=int(given["fruitless"]),
        reached=Progress(_optional(float, reached["checkpoint"]), _optional(int, reached["step"])),
        gave_up=str(given["gave_up"]),
        generation=int(given["generation"]),
    )


def _optional(kind: type[_Number], value: Any) -> _Number | None:
    return None if value is None else kind(value)


def _newest(one: _Number | None, other: _Number | None) -> _Number | None:
    return max((value for value in (one, other) if value is not None), default=None)


def _is_above(value: float | None, other: float | None) -> bool:
    return value is not None and (other is None or value > other)
