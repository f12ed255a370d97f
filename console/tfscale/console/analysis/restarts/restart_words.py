"""Sentence and evidence of a restart with measured cost and gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfscale.console.analysis.restarts.step_rate import Change, StepRate
from tfscale.console.analysis.stragglers.straggler_words import names_of
from tfscale.core.cluster.task import CLUSTER
from tfscale.core.records.diagnosis import Diagnosis, Evidence
from tfscale.core.text import duration, elapsed, plural

_LEAST = 0.005
"""Share below which an expected gain is left out: it would be shown as 0 %."""
_ROUND = 0.055
"""Noise up to which `as fast as before` stands without its noise: up to 5 % a reader takes as equal."""
_LONG = 3600.0
"""Seconds from which on a time is written in hours."""
_WORKERS = {"worker", "chief"}
"""Roles whose tasks together are called workers."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Gain that was expected from a restart, by what the stragglers among its tasks cost."""

    share: float = 0.0
    is_bound: bool = False
    """True where the expected gain is an upper bound."""

    @property
    def words(self) -> str:
        """The share as text, `up to 30%`; empty where nothing was expected."""
        return f"{'up to ' if self.is_bound else ''}{self.share:.0%}" if self.share >= _LEAST else ""


@dataclass(frozen=True, slots=True)
class Cost:
    """Time that a restart has cost the cluster."""

    seconds: float
    repeated: int = 0
    """Steps that were made before."""
    left: int = 0
    """Steps that still have to be repeated; more than 0 where the cost in seconds is a forecast."""
    is_least: bool = False
    """True where the cost may be higher, since the repeated steps are unknown."""

    @property
    def words(self) -> str:
        if self.left:
            steps = "step is" if self.left == 1 else "steps are"
            return f"costs some {_time(self.seconds)} until {self.left:,} more {steps} repeated"
        least = "at least " if self.is_least else ""
        repeated = f" with {self.repeated:,} repeated step{'' if self.repeated == 1 else 's'}" if self.repeated else ""
        return f"cost {least}{_time(self.seconds)}{repeated}"


@dataclass(frozen=True, slots=True)
class MeasuredRestart:
    """Restart, or several in a row, with measured steps after it."""

    tasks: tuple[str, ...]
    """Names of the tasks that were restarted, in the cluster's order."""
    others: bool
    """True where some tasks that train were not."""
    count: int
    begin: float
    """End of the last step before, Unix seconds."""
    end: float
    """End of the first new step after the restart; while steps are repeated, of the newest step."""
    now: float
    """End of the newest step, Unix seconds."""
    idle: float
    """Seconds without a step in which no restart was under way."""
    cost: Cost | None
    """None where the clocks contradict each other."""
    before: StepRate | None
    after: StepRate
    expected: Expected
    why_not_compared: str = ""
    changed: Sequence[str] = ()
    """Differences to the time before, as phrases."""
    reason: str = ""
    """The reason that the agent gives for the start."""
    restarted_for: str = ""
    """Name of the slow worker for whose sake the policy `on_straggler` restarted; empty for any other reason."""


def restart_diagnosis(restart: MeasuredRestart) -> Diagnosis:
    """Return the diagnosis, which is over."""
    subject = restart.tasks[0] if len(restart.tasks) == 1 else CLUSTER
    change = None if restart.why_not_compared or not restart.before else Change.between(restart.before, restart.after)
    sentence = f"{_who(restart)}{_sentence(restart, change)}"
    return Diagnosis(
        "restart", subject, restart.begin, restart.end, "info", sentence, evidence=_evidence(restart, change)
    )


def _who(restart: MeasuredRestart) -> str:
    """Return the subject of the sentence: `restart of 3 workers, after 8 h 02 m without a step,`."""
    tasks = restart.tasks
    roles = {name.partition(":")[0] for name in tasks}
    noun = "worker" if roles <= _WORKERS else "task"
    who = names_of(tasks) if len(tasks) == 1 or restart.others else plural(len(tasks), noun)
    many = "restart" if restart.count == 1 else f"{restart.count} restarts"
    idle = f", after {_time(restart.idle)} without a step," if restart.idle else ""
    return f"{many} of {who}{idle}"


def _sentence(restart: MeasuredRestart, change: Change | None) -> str:
    cost = restart.cost.words if restart.cost else ""
    unknown = "; what it cost is not known: the clocks of hosts and console disagree" if restart.cost is None else ""
    hoped = f" ({restart.expected.words} expected)" if restart.expected.words else ""
    if change is None:
        return f" {cost or 'is over'}; not compared with before: {restart.why_not_compared}{unknown}"
    if change.has_gained:
        paid = f", {cost}{_paid_back(restart, change.share)}" if cost else unknown
        return f" gained {change.share:.0%}{hoped}{paid}"
    pace = f"{-change.share:.0%} slower than before" if change.is_real else "as fast as before"
    doubt = f" (to within {change.noise:.0%})" if not change.is_real and change.noise > _ROUND else ""
    hoped = f", though {restart.expected.words} more was expected" if restart.expected.words else ""
    return f" {cost or 'is over'}; {pace}{doubt}{hoped}{unknown}"


def _paid_back(restart: MeasuredRestart, gain: float) -> str:
    assert restart.cost is not None
    seconds = restart.cost.seconds / gain
    least = "at least " if restart.cost.is_least else ""
    is_past = not restart.cost.left and restart.now - restart.end >= seconds
    return f", {'' if is_past else 'will be '}paid back after {least}{_time(seconds)}"


def _evidence(restart: MeasuredRestart, change: Change | None) -> Evidence:
    cost = restart.cost
    known: Evidence = {
        "gained": change.share if change else None,
        "noise": change.noise if change else None,
        "expected": restart.expected.share if restart.expected.words else None,
        "lost_seconds": cost.seconds if cost else None,
        "repeated": cost.repeated or None if cost else None,
        "to_repeat": cost.left or None if cost else None,
        "idle_seconds": restart.idle or None,
        "paid_back_after": cost.seconds / change.share if cost and change and change.has_gained else None,
        "rate_before": restart.before.per_second if restart.before else None,
        "rate": restart.after.per_second,
        "restarts": restart.count,
        "tasks": restart.tasks,
        "changed": tuple(restart.changed) or None,
        "reason": restart.reason or None,
        "restarted_for": restart.restarted_for or None,
    }
    return {name: value for name, value in known.items() if value is not None}


def _time(seconds: float) -> str:
    return duration(seconds) if seconds < _LONG else elapsed(seconds)
