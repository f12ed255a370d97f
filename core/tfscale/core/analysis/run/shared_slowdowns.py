"""Slowdowns that all workers share: no worker straggles, but every step takes longer than before in this run.

The rule compares a part of the step with the run's own past, as the straggler rule compares a worker with its peers.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from tfscale.core.analysis.steps.phases import transfer
from tfscale.core.analysis.steps.step_table import AlignedSteps, Floats
from tfscale.core.cluster.task import CLUSTER
from tfscale.core.records import LAG_PHASES, Diagnosis
from tfscale.core.text import clock, step_time, times

PARTS = (*LAG_PHASES, "transfer")
LEAST_HISTORY = 60
"""Evaluations, one a second, before anything can be slower than before (chosen: one minute)."""
KEEP = 1800
"""Evaluations that are remembered: half an hour."""
ON, OFF = 1.5, 1.25
"""Ratios to the usual time of a part from which on it is slower, and below which that ends (chosen)."""
COST_ON, COST_OFF = 0.10, 0.05
"""Shares of the step that the additional time must cost, and below which the slowdown ends (chosen)."""
LASTS = 20
"""Evaluations in a row that must show it (chosen: a busy second or two is no lasting change)."""
_USUAL = 0.25
"""Quantile of the history that is the usual time: a quarter of it undisturbed is enough."""

_WORDS = {
    "transfer": ("the all-reduce", ": the network is slower, the workers are not"),
    "input": ("every worker's waiting for data", ": look at the storage that they share"),
    "host": ("every worker's Python between steps", ""),
    "compute": ("every worker's compute", ""),
    "update": ("every worker's update", ""),
}
"""By part of the step: its name in a sentence, and what follows from it."""
_CAUSES = {"transfer": "network", "input": "input", "host": "host"}


def part_times(window: AlignedSteps) -> Floats:
    """Return (5,) seconds of each of PARTS, medians over steps and workers."""
    middle = [float(np.median(plane)) for plane in window.phases[:-1]]
    return np.array([*middle, float(np.median(transfer(window.reduce)))])


@dataclass(slots=True)
class SharedSlowdownWatch:
    """Memory of how long each part of a step took; it reports when one takes longer for good."""

    _past: deque[Floats] = field(default_factory=lambda: deque(maxlen=KEEP))
    _subjects: tuple[str, ...] = ()
    _since: float | None = None
    """Begin of the slowdown under suspicion, Unix seconds."""
    _in_a_row: int = 0
    """Evaluations in a row that have shown it."""
    _open: Diagnosis | None = None

    def restart(self) -> None:
        """Forget the history: a new attempt has usual times of its own."""
        self._past.clear()
        self._since, self._in_a_row, self._open = None, 0, None

    def diagnose(self, window: AlignedSteps, now: float) -> list[Diagnosis]:
        """Evaluate the newest steps, none where there are none, and return what is open: at most one `slowdown`."""
        if window.subjects != self._subjects:
            self._subjects = window.subjects
            self.restart()
        if len(window):
            self._evaluate(part_times(window), now)
        return self.open

    @property
    def open(self) -> list[Diagnosis]:
        return [self._open] if self._open else []

    def _evaluate(self, current: Floats, now: float) -> None:
        if len(self._past) >= LEAST_HISTORY:
            self._judge(current, np.quantile(np.array(self._past), _USUAL, axis=0), now)
        if self._since is None:
            # A time under suspicion must not become usual.
            self._past.append(current)

    def _judge(self, current: Floats, usual: Floats, now: float) -> None:
        extra = current - usual
        most = int(np.argmax(extra))
        ratio, cost = current[most] / max(usual[most], 1e-9), extra[most] / current.sum()
        ratio_on, cost_on = (OFF, COST_OFF) if self._open else (ON, COST_ON)
        if ratio < ratio_on or cost < cost_on:
            self._since, self._in_a_row, self._open = None, 0, None
            return
        self._since = now if self._since is None else self._since
        self._in_a_row += 1
        if self._in_a_row >= LASTS and self._open is None:
            self._open = _describe(PARTS[most], float(ratio), float(extra[most]), float(cost), self._since)


def _describe(part: str, ratio: float, extra: float, cost: float, begin: float) -> Diagnosis:
    name, follows = _WORDS[part]
    before = extra / (ratio - 1)
    took = f"{step_time(before + extra)} a step, before {step_time(before)} ({times(ratio)})"
    sentence = f"since {clock(begin)} {name} has taken {took}{follows}. The cluster loses {cost:.0%}."
    evidence: dict[str, float | str | None] = {
        "part": part,
        "ratio": ratio,
        "excess": extra,
        "cost": cost,
        "cause": _CAUSES.get(part, "unknown"),
    }
    severity = "critical" if ratio >= 4 and cost >= 0.5 else "serious" if cost >= 0.33 else "warning"
    return Diagnosis("slowdown", CLUSTER, begin, None, severity, sentence, evidence)
