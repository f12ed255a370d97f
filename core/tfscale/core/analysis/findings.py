"""Results of the diagnosis: frozen values that the screens, the log and the export read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tfscale.core.analysis.steps.staleness import Staleness
from tfscale.core.records import Diagnosis

SEVERITIES = ("info", "warning", "serious", "critical")
"""Severities of a diagnosis in rising order."""

KINDS = (
    "cut_off",
    "crash",
    "unreachable",
    "hang",
    "not_started",
    "not_trained",
    "not_measured",
    "unused_gpus",
    "not_finite",
    "slow_link",
    "straggler",
    "slowdown",
    "imbalance",
    "saturation",
)
"""Kinds of a diagnosis, causes before effects; docs/reference/diagnoses.md explains each."""


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
    """The part of `reduce` in which it waited for a slower subject."""
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
    """All open diagnoses, and those that ended since the last evaluation; the most severe first."""
    headline: str = ""
    """The sentence for the top line of every screen."""
    step_time: float | None = None
    """Median seconds of a step of the cluster over the newest steps."""
    steps_per_second: float | None = None
    examples_per_second: float | None = None
    slowdown: float | None = None
    """Step time over that with the open stragglers as fast as their peers; 1.0 without stragglers."""
    transfer: float | None = None
    """Median seconds of a step that the network takes from every worker."""
    subjects: Mapping[str, SubjectSummary] = field(default_factory=dict)
    spent: Mapping[str, float] = field(default_factory=dict)
    """Seconds of the run so far by bucket of its goodput; empty before anything started."""
    local_steps: int = 1
    """Steps of the program that are one step here, from one all-reduce to the next (local SGD)."""


def by_severity(diagnosis: Diagnosis) -> tuple[bool, int, int, float]:
    """Return a sort key: open before ended, then the most severe, then causes before effects, then the oldest."""
    return (
        diagnosis.end is not None,
        -SEVERITIES.index(diagnosis.severity),
        KINDS.index(diagnosis.kind),
        diagnosis.begin,
    )
