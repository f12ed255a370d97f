"""Results of the diagnosis: frozen values that the screens, the log and the export read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from tfscale.console.analysis.condition.cluster_condition import ClusterCondition
from tfscale.console.analysis.condition.start_stages import Start
from tfscale.console.analysis.finding_kinds import Charge, kind_of, rank_of
from tfscale.console.analysis.steps.staleness import Staleness
from tfscale.console.analysis.stragglers.straggler_rule import ShortHistory, Suspect
from tfscale.core.records.diagnosis import Diagnosis

SEVERITIES = ("info", "warning", "serious", "critical")
"""Severities of a diagnosis in rising order."""
STANDING = ("still", "hang")
"""Kinds of a standstill, of which one becomes the other."""
_LEAST_COSTS = {"info": 0.0, "warning": 0.03, "serious": 0.25, "critical": 0.5}
"""Least share of the time that a straggler of each severity costs: 3 % to be named at all, a quarter and a half by
the levels of `straggler_rule.severity_of` (1.33 and 2.0 times as long). A finding of unknown cost takes the place of
such a straggler: above a finding that costs less, below a finding that costs more."""


@dataclass(frozen=True, slots=True)
class SubjectSummary:
    """Medians of one subject's newest steps, in seconds; None unknown."""

    step: int | None = None
    """Sequence of its newest gradient collective."""
    global_step: int | None = None
    step_time: float | None = None
    update: float | None = None
    host: float | None = None
    input: float | None = None
    compute: float | None = None
    reduce: float | None = None
    wait: float | None = None
    """Part of `reduce` in which the subject waited for a slower subject."""
    lag: float | None = None
    """Time from leaving one all-reduce to entering the next: update + host + input + compute."""
    ratio: float | None = None
    """Lag over the median lag of the others."""
    staleness: Staleness | None = None
    """Updates by other workers between its pulls and its pushes; None where its steps wait for all."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The result of one evaluation of the cluster."""

    diagnoses: tuple[Diagnosis, ...] = ()
    """All open diagnoses, and those that ended since the last evaluation; the highest present cost first
    (`by_cost`)."""
    headline: str = ""
    """The sentence for the top line of every screen."""
    step_time: float | None = None
    """Median seconds of a step of the cluster over the newest steps; None where it does not train."""
    steps_per_second: float | None = None
    """0 while the cluster stands still, None where it does not train otherwise."""
    examples_per_second: float | None = None
    slowdown: float | None = None
    """Step time over that with the open stragglers as fast as their peers; 1.0 without stragglers."""
    transfer: float | None = None
    """Median seconds of a step that the network takes from every worker."""
    subjects: Mapping[str, SubjectSummary] = field(default_factory=dict)
    spent: Mapping[str, float] = field(default_factory=dict)
    """Seconds of the run by bucket of its goodput, up to the last time at which a task ran; empty before any start."""
    counted: Mapping[str, float] = field(default_factory=dict)
    """Part of `spent` up to the newest step that all workers have reported: it only grows."""
    ran: float = 0.0
    """Newest time at which a task ran, Unix seconds; 0 before."""
    local_steps: int = 1
    """Steps of the program in one step from one all-reduce to the next (local SGD)."""
    condition: ClusterCondition = field(default_factory=ClusterCondition)
    short_history: ShortHistory | None = None
    """Known history of the steps while it is too short to name a straggler; None where it is long enough."""
    suspect: Suspect | None = None
    """Subject that looks slow while the headline does not name it: no diagnosis, and shown in grey."""
    starts: Mapping[str, Start] = field(default_factory=dict)
    """Starts of the tasks that have made no step in their attempt, by name."""
    top: Diagnosis | None = None
    """Open diagnosis that the headline quotes; None where it quotes none."""

    @property
    def efficiency(self) -> float | None:
        """Scaling efficiency, 0 to 1: a worker's own work over the step; None without a collective.

        The rest of the step is the all-reduce and its waits. A single worker needs no all-reduce, so N workers make N
        times this share of its steps.
        """
        lags = [own.lag for own in self.subjects.values() if own.lag is not None and own.wait is not None]
        if len(lags) < 2 or not self.step_time:
            return None
        return min(1.0, median(lags) / self.step_time)


def is_calm(diagnosis: Diagnosis) -> bool:
    """Decide whether a diagnosis is no trouble.

    Such are a limit of a cluster that is used well, other work than before, the cost and gain of a restart, and a lack
    of names without which steps and phases are the same.
    """
    return diagnosis.severity == "info" and kind_of(diagnosis).info_is_calm


def has_become_a_hang(diagnosis: Diagnosis, diagnoses: Iterable[Diagnosis]) -> bool:
    """Decide whether a stillness has ended because a hang among `diagnoses` continues it."""
    if diagnosis.kind != "still" or diagnosis.end is None:
        return False
    return any(each.kind == "hang" and each.end is None and each.subject == diagnosis.subject for each in diagnoses)


def is_standing(diagnosis: Diagnosis) -> bool:
    """Decide whether a diagnosis is a stillness or the hang that it becomes."""
    return diagnosis.kind in STANDING


def goes_on(diagnosis: Diagnosis, diagnoses: Iterable[Diagnosis]) -> bool:
    """Decide whether a stillness has ended only because a hang continues it, or a hang because a stillness does."""
    if diagnosis.kind not in STANDING or diagnosis.end is None:
        return False
    return any(
        each.kind in STANDING
        and each.end is None
        and (each.subject, each.begin) == (diagnosis.subject, diagnosis.begin)
        for each in diagnoses
    )


def sentence_key(diagnosis: Diagnosis) -> tuple[object, ...]:
    """Return a key that is equal for findings that share one sentence, as several stragglers do."""
    return diagnosis.kind, diagnosis.together or (diagnosis.subject, diagnosis.begin)


def one_each(diagnoses: Iterable[Diagnosis]) -> list[Diagnosis]:
    """Return the first diagnosis of each sentence."""
    first: dict[tuple[object, ...], Diagnosis] = {}
    for diagnosis in diagnoses:
        first.setdefault(sentence_key(diagnosis), diagnosis)
    return list(first.values())


def loss_of(diagnosis: Diagnosis) -> float | None:
    """Return the share of the cluster's time that a finding's sentence quotes as its cost; None without one.

    Stragglers quote the cost of all stragglers together.
    """
    slowdown = diagnosis.number("slowdown") if kind_of(diagnosis).charges is Charge.JOINT_SHARE else None
    cost = 1 - 1 / max(slowdown, 1.0) if slowdown else diagnosis.number("cost")
    return None if cost is None else min(max(cost, 0.0), 1.0)


def cost_now(diagnosis: Diagnosis, trains: bool) -> float:
    """Return the share of the cluster's time that a finding costs; where unknown, the least of its severity.

    The share is 1 while the finding keeps the cluster from training, or makes all its steps worthless.
    """
    kind = kind_of(diagnosis)
    if kind.costs_all or (kind.stops_training and not trains):
        return 1.0
    loss = loss_of(diagnosis)
    return _LEAST_COSTS[diagnosis.severity] if loss is None else loss


def by_cost(diagnosis: Diagnosis, trains: bool) -> tuple[bool, float, int, int, float]:
    """Return a sort key: open before ended, then the cost in whole percents, then the severity, causes before effects.

    Percents are whole, as in sentences: noise below one percent does not exchange two findings.
    """
    is_over, severity, rank, begin = by_severity(diagnosis)
    return is_over, -round(cost_now(diagnosis, trains), 2), severity, rank, begin


def by_severity(diagnosis: Diagnosis) -> tuple[bool, int, int, float]:
    """Return a sort key: open before ended, then the most severe, then causes before effects, then the oldest."""
    return (
        diagnosis.end is not None,
        -SEVERITIES.index(diagnosis.severity),
        rank_of(diagnosis),
        diagnosis.begin,
    )
