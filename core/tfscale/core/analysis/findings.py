"""What the diagnosis hands out: frozen values that the screen, the log and the export all read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tfscale.core.records import Diagnosis

SEVERITIES = ("info", "warning", "serious", "critical")
"""In rising order."""

KINDS = ("crash", "hang", "not_started", "not_finite", "straggler", "slowdown", "imbalance", "saturation")
"""Of a diagnosis; docs/diagnosis.md explains each. Only a named culprit is `straggler`."""


@dataclass(frozen=True, slots=True)
class SubjectSummary:
    """One subject's steps in the window: medians in seconds, None unknown."""

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
    """The part of `reduce` that went into waiting for somebody slower."""
    lag: float | None = None
    """From leaving one all-reduce to entering the next: update + host + input + compute."""
    ratio: float | None = None
    """Lag over the median lag of the others, step by step."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that can be said of the cluster at one moment."""

    diagnoses: tuple[Diagnosis, ...] = ()
    """All open ones, and those that ended since the last call; most severe first."""
    headline: str = ""
    """The one sentence for the top line."""
    step_time: float | None = None
    """Seconds, the cluster's median over the window."""
    steps_per_second: float | None = None
    examples_per_second: float | None = None
    slowdown: float | None = None
    """Step time over what it would be with the named stragglers as fast as their peers; 1.0 when nobody is named."""
    transfer: float | None = None
    """Seconds a step that the network costs everybody."""
    subjects: Mapping[str, SubjectSummary] = field(default_factory=dict)
    spent: Mapping[str, float] = field(default_factory=dict)
    """Seconds of the run so far by bucket of its goodput; empty before anything started."""


def by_severity(diagnosis: Diagnosis) -> tuple[bool, int, int, float]:
    """Sort key: open before ended, then the most severe, then causes before effects, then the oldest."""
    return (
        diagnosis.end is not None,
        -SEVERITIES.index(diagnosis.severity),
        KINDS.index(diagnosis.kind),
        diagnosis.begin,
    )
