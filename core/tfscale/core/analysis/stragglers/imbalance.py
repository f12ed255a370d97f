"""Imbalance: the slowest subject of each step costs much, but it is not always the same one.

Cost and phase are measured over the same three windows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tfscale.core.analysis.steps.blocks import WINDOW, Blocks
from tfscale.core.analysis.steps.impute import impute
from tfscale.core.analysis.steps.phases import others_median
from tfscale.core.analysis.steps.step_table import AlignedSteps, Floats
from tfscale.core.cluster.task import CLUSTER
from tfscale.core.records import LAG_PHASES, Diagnosis

COST_ON, COST_OFF = 0.15, 0.10
"""Shares of the step from which on an imbalance is reported, and below which it ends (chosen)."""
_WINDOWS = 3
"""Windows in a row that must show it, so that a straggler is named before it is called an imbalance."""
_MAJORITY = 0.5
"""Share of the lost time that a phase must hold to be named."""


@dataclass(slots=True)
class ImbalanceWatch:
    """Watch that reports an imbalance while no straggler is named."""

    diagnosis: Diagnosis | None = None
    """The open imbalance, None while there is none."""

    def judge(self, blocks: Blocks, steps_since: Callable[[float], AlignedSteps]) -> None:
        """Open, complete or end the diagnosis. `steps_since(t)` returns the steps that ended after t."""
        cost, opened = lasting_imbalance(blocks), self.diagnosis
        if cost < (COST_OFF if opened else COST_ON):
            self.diagnosis = None
        elif opened is None or "phase" not in opened.evidence:
            begin = float(blocks.end[-_WINDOWS * WINDOW])
            phase = moving_phase(steps_since(begin))
            if opened is None or phase is not None:
                self.diagnosis = _describe(cost, opened.begin if opened else begin, phase)


def lasting_imbalance(blocks: Blocks) -> float:
    """Return the share of the step that its slowest subject costs: the least of the last windows."""
    if len(blocks) < _WINDOWS * WINDOW:
        return 0.0
    return float(np.median(blocks.spread[-_WINDOWS * WINDOW :].reshape(_WINDOWS, WINDOW), axis=1).min())


def moving_phase(steps: AlignedSteps) -> tuple[str, float] | None:
    """Return (phase, share) in which the slowest subject of each step loses most; None where no phase holds half."""
    complete = impute(steps)
    if len(complete) == 0 or len(complete.subjects) < 2:
        return None
    slowest = np.argmax(complete.lag, axis=1)
    lost: Floats = np.array([_lost(plane, slowest) for plane in complete.phases[:-1]])
    total = float(lost.clip(0.0).sum())
    most = int(np.argmax(lost))
    share = float(lost[most]) / total if total > 0 else 0.0
    return (LAG_PHASES[most], share) if share >= _MAJORITY else None


def _lost(plane: Floats, slowest: Floats) -> float:
    """Return the mean seconds by which the slowest of each row exceeds the median of the others."""
    rows = np.arange(len(plane))
    return float((plane - others_median(plane))[rows, slowest].mean())


def _describe(cost: float, begin: float, phase: tuple[str, float] | None) -> Diagnosis:
    sentence = (
        f"the slowest of each step costs the cluster {cost:.0%} of its throughput, but it is not always the same one: "
        "uneven work or noisy hosts, nobody to repair"
    )
    evidence: dict[str, float | str | None] = {"cost": cost}
    if phase is not None:
        name, share = phase
        sentence += f"; mostly in {name}"
        cause = {"input": "input", "compute": "uneven"}.get(name, name)
        evidence |= {"phase": name, "share": share, "cause": cause}
    severity = "warning" if cost >= 0.33 else "info"
    return Diagnosis("imbalance", CLUSTER, begin, None, severity, sentence, evidence)
