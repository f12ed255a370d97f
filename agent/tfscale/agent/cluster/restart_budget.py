"""Restarts that a training has left: within a period, and in a row without progress. Pure.

Times are seconds on a clock of this host that nobody sets; other hosts, and files, get ages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from tfscale.core.cluster.placement.host_failures import ages_of, times_of
from tfscale.core.cluster.recovery_policy import RecoveryPolicy, time_text

_MOST_DOUBLINGS = 30
_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a training, as far as known."""

    checkpoint: float | None = None
    """Time at which its newest checkpoint was written, Unix seconds of the host that wrote it."""
    step: int | None = None
    """Global step of the optimizer."""

    def with_other(self, other: Progress) -> Progress:
        """Return the newest of both."""
        return Progress(_newest(self.checkpoint, other.checkpoint), _newest(self.step, other.step))

    def after(self, other: Progress) -> Progress:
        """Return the progress of a start after the one that reached `other`."""
        checkpoint = other.checkpoint if self.checkpoint is None else self.checkpoint
        return Progress(checkpoint, _newest(self.step, other.step))

    def is_beyond(self, other: Progress) -> bool:
        """Return whether a start that reached this has brought anything after one that reached `other`.

        A checkpoint of another time is a newer one: a start tells those that it has written, by a clock that may have
        been set back.
        """
        has_written = self.checkpoint is not None and self.checkpoint != other.checkpoint
        return has_written or _is_above(self.step, other.step)


@dataclass(frozen=True, slots=True)
class RestartBudget:
    """Restarts so far of the tasks that restart together; the first of them is its name."""

    name: str
    restarts: tuple[float, ...] = ()
    """Times of the restarts within the period, oldest first."""
    newest: float | None = None
    """Time of the newest restart, however old; None before the first."""
    fruitless: int = 0
    """Restarts in a row that brought no progress."""
    reached: Progress = Progress()
    """Progress before the newest restart."""
    gave_up: str = ""
    """Reason for which no further restart follows until somebody asks for one."""
    generation: int = 0
    """Generation of the newest restart, or that was given up: of two budgets the higher one is the newer."""

    def after_end(self, reached: Progress, at: float, policy: RecoveryPolicy) -> RestartBudget:
        """Return the budget after an end at `at`, before the restart for it.

        A start that lasted longer than the period counts as progress, too: not every program reports its steps.
        """
        fruitless = self.fruitless
        if self.newest is not None:
            is_long = at - self.newest > policy.period
            fruitless = 0 if is_long or reached.is_beyond(self.reached) else fruitless + 1
        within = policy.within_period(self.restarts, at)
        return replace(self, restarts=within, fruitless=fruitless, reached=reached.after(self.reached))

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

    def after_restart(self, at: float, generation: int) -> RestartBudget:
        """Return the budget after a restart to this generation."""
        return replace(self, restarts=(*self.restarts, at), newest=at, generation=generation)

    def given_up(self, why: str, generation: int) -> RestartBudget:
        return replace(self, gave_up=why, generation=generation)

    def is_newer(self, other: RestartBudget) -> bool:
        return (self.generation, bool(self.gave_up)) > (other.generation, bool(other.gave_up))

    def aged(self, now: float) -> dict[str, object]:
        """Return the budget as an object of JSON, with ages at `now` in the place of times."""
        newest = () if self.newest is None else (self.newest,)
        return {**asdict(self), "restarts": ages_of(self.restarts, now), "newest": ages_of(newest, now)}


def parse_budget(given: Mapping[str, Any], now: float) -> RestartBudget:
    """Return the budget of an object of JSON, whose ages are of `now`. Raises ValueError, TypeError and KeyError."""
    reached = given["reached"]
    return RestartBudget(
        name=str(given["name"]),
        restarts=times_of(given["restarts"], now),
        newest=max(times_of(given["newest"], now), default=None),
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
