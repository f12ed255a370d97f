"""Imbalance: the slowest subject of each step costs much, and no subject is slow throughout.

Cost, phase and shares of the lost time are measured over the same three windows, anew each second. A sentence says that
the slowest subject changes only where these shares show it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.arrays import Floats
from tfscale.console.analysis.steps.blocks import WINDOW, Blocks
from tfscale.console.analysis.steps.impute import impute
from tfscale.console.analysis.steps.phases import others_median
from tfscale.core.cluster.task import CLUSTER
from tfscale.core.records.diagnosis import Diagnosis, Evidence
from tfscale.core.records.step_batch import LAG_PHASES

COST_ON, COST_OFF = 0.15, 0.10
"""Shares of the step from which on an imbalance is reported, and below which it ends: the slowest of many workers
always costs some percent of the step by ordinary noise, which nobody can mend."""
_WINDOWS = 3
"""Windows in a row that must show an imbalance: enough for the straggler rule to name a straggler first."""
_MAJORITY = 0.5
"""Share of the lost time that a phase must hold to be named."""
_MOSTLY = 2 / 3
"""Share of the lost time from which on it is one subject's: twice what all others lose together."""
_EVEN = 0.65
"""Largest share of the lost time that one of two subjects has while the slowest subject changes; of n subjects, 2/n."""


class LostTime(NamedTuple):
    """Time that the slowest subject of each step costs all, over some steps."""

    phase: str | None
    """The phase with most of the imbalance; None where no phase has half of it."""
    phase_share: float
    subject: str
    """The subject with most of the imbalance."""
    subject_share: float
    subjects: int

    @property
    def moves(self) -> bool:
        """True where the shares show that the slowest subject changes."""
        return self.subject_share <= min(_EVEN, 2 / self.subjects)

    @property
    def may_be_nothing(self) -> bool:
        """True where one subject's data come last: the others wait for it, and their own data may come no earlier."""
        return self.phase == "input" and self.subject_share >= _MOSTLY


@dataclass(slots=True)
class ImbalanceWatch:
    """Watch that reports an imbalance while no straggler is named."""

    diagnosis: Diagnosis | None = None
    """The open imbalance, None while there is none."""
    _since: float = 0.0
    """End of the newest straggler, Unix seconds: its cost is no imbalance."""

    def interrupt(self, at: float) -> None:
        """End the imbalance: up to `at`, Unix seconds, a straggler explains the loss."""
        self.diagnosis, self._since = None, at

    def judge(self, blocks: Blocks, steps_since: Callable[[float], AlignedSteps]) -> None:
        """Open, measure anew, or end the diagnosis. `steps_since(t)` returns the steps that ended after t."""
        first = int(np.searchsorted(blocks.end, self._since, side="right"))
        cost, opened = lasting_imbalance(blocks.spread[first:]), self.diagnosis
        if cost < (COST_OFF if opened else COST_ON):
            self.diagnosis = None
            return
        begin = float(blocks.end[-_WINDOWS * WINDOW])
        if (lost := lost_time(steps_since(begin))) is not None and lost.may_be_nothing:
            self.diagnosis = None
        elif lost is not None:
            self.diagnosis = _describe(cost, opened.begin if opened else begin, lost)


def lasting_imbalance(spread: Floats) -> float:
    """Return the share of the step that its slowest subject costs: the least of the last windows of (N,) shares."""
    if len(spread) < _WINDOWS * WINDOW:
        return 0.0
    return float(np.median(spread[-_WINDOWS * WINDOW :].reshape(_WINDOWS, WINDOW), axis=1).min())


def lost_time(steps: AlignedSteps) -> LostTime | None:
    """Return in which phase, and by which subject, each step's slowest loses most; None without steps."""
    complete = impute(steps)
    if len(complete) == 0 or len(complete.subjects) < 2:
        return None
    rows, slowest = np.arange(len(complete)), np.argmax(complete.lag, axis=1)
    lost = np.array([(plane - others_median(plane))[rows, slowest] for plane in complete.phases[:-1]])
    by_phase = lost.mean(axis=1).clip(0.0)
    by_subject = np.bincount(slowest, lost.sum(axis=0).clip(0.0), len(complete.subjects))
    if not by_phase.sum() or not by_subject.sum():
        return None
    phase, subject = int(np.argmax(by_phase)), int(np.argmax(by_subject))
    share = float(by_phase[phase] / by_phase.sum())
    return LostTime(
        LAG_PHASES[phase] if share >= _MAJORITY else None,
        share,
        complete.subjects[subject],
        float(by_subject[subject] / by_subject.sum()),
        len(complete.subjects),
    )


def _describe(cost: float, begin: float, lost: LostTime) -> Diagnosis:
    sentence = f"the slowest of each step costs the cluster {cost:.0%} of its throughput"
    evidence: Evidence = {"cost": cost}
    if lost.moves:
        sentence += ", but it is not always the same one: uneven work or noisy hosts, nobody to repair"
    elif lost.subject_share >= _MOSTLY:
        sentence += f": mostly {lost.subject} ({lost.subject_share:.0%} of that)"
        evidence |= {"mostly": lost.subject, "subject_share": lost.subject_share}
    if lost.phase is not None:
        sentence += f"; mostly in {lost.phase}"
        cause = {"input": "input", "compute": "uneven"}.get(lost.phase, lost.phase)
        evidence |= {"phase": lost.phase, "share": lost.phase_share, "cause": cause}
    severity = "warning" if cost >= 0.33 else "info"
    return Diagnosis("imbalance", CLUSTER, begin, None, severity, sentence, evidence=evidence)
