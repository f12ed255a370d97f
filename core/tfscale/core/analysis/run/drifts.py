"""A slowdown that all workers share: nobody straggles, but every step takes longer than it did in this run.

The same comparison as among workers, with the run's own past as the peer.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from tfscale.core.analysis.steps.phases import transfer
from tfscale.core.analysis.steps.step_table import Aligned, Floats
from tfscale.core.analysis.words import clock, duration
from tfscale.core.records import LAG_PHASES, Diagnosis
from tfscale.core.task import CLUSTER

PARTS = (*LAG_PHASES, "transfer")
LEAST_HISTORY = 60
"""Looks, one a second, before anything can be slower than it was."""
KEEP = 1800
ON, OFF = 1.5, 1.25
"""Times the run's own baseline."""
COST_ON, COST_OFF = 0.10, 0.05
"""Of the step, what it must cost."""
LASTS = 20
"""Looks in a row that must show it: a busy second or two is no drift."""
_BASELINE = 0.25
"""Quantile of the history: what is usual when nothing disturbs."""

_WORDS = {
    "transfer": "the all-reduce takes {much}: the network is slower, the workers are not",
    "input": "every worker waits for its data {much}: look at the storage that they share",
    "host": "every worker's Python takes {much}",
    "compute": "every worker computes {much}",
    "update": "every worker's update takes {much}",
}
_CAUSES = {"transfer": "network", "input": "input", "host": "host"}


def parts(window: Aligned) -> Floats:
    """(5,) seconds of each part in the middle step and worker, the transfer last."""
    middle = [float(np.median(plane)) for plane in window.phases[:-1]]
    return np.array([*middle, float(np.median(transfer(window.reduce)))])


@dataclass(slots=True)
class DriftWatch:
    """Remembers how long each part of a step took, and says when one stays longer."""

    _past: deque[Floats] = field(default_factory=lambda: deque(maxlen=KEEP))
    _subjects: tuple[str, ...] = ()
    _since: float | None = None
    _looks: int = 0
    _open: Diagnosis | None = None

    def restart(self) -> None:
        """Another attempt: what was usual in the one before says nothing of this one."""
        self._past.clear()
        self._since, self._looks, self._open = None, 0, None

    def diagnose(self, window: Aligned, now: float) -> list[Diagnosis]:
        """At most one `slowdown`, from the newest steps; nothing where there are none."""
        if window.subjects != self._subjects:
            self._subjects = window.subjects
            self.restart()
        if len(window):
            self._look(parts(window), now)
        return self.told()

    def told(self) -> list[Diagnosis]:
        """What is open."""
        return [self._open] if self._open else []

    def _look(self, current: Floats, now: float) -> None:
        if len(self._past) >= LEAST_HISTORY:
            self._judge(current, np.quantile(np.array(self._past), _BASELINE, axis=0), now)
        if self._since is None:
            # What is already suspected does not become usual.
            self._past.append(current)

    def _judge(self, current: Floats, usual: Floats, now: float) -> None:
        extra = current - usual
        most = int(np.argmax(extra))
        ratio, cost = current[most] / max(usual[most], 1e-9), extra[most] / current.sum()
        ratio_on, cost_on = (OFF, COST_OFF) if self._open else (ON, COST_ON)
        if ratio < ratio_on or cost < cost_on:
            self._since, self._looks, self._open = None, 0, None
            return
        self._since = now if self._since is None else self._since
        self._looks += 1
        if self._looks >= LASTS and self._open is None:
            self._open = _describe(PARTS[most], float(ratio), float(extra[most]), float(cost), self._since)


def _describe(part: str, ratio: float, extra: float, cost: float, begin: float) -> Diagnosis:
    what = _WORDS[part].format(much=f"{ratio:.2g}x as long as before (+{duration(extra)} a step)")
    sentence = f"since {clock(begin)} {what}; it costs the cluster {cost:.0%} of its throughput"
    evidence: dict[str, float | str | None] = {
        "part": part,
        "ratio": ratio,
        "excess": extra,
        "cost": cost,
        "cause": _CAUSES.get(part, "unknown"),
    }
    severity = "critical" if ratio >= 4 and cost >= 0.5 else "serious" if cost >= 0.33 else "warning"
    return Diagnosis("slowdown", CLUSTER, begin, None, severity, sentence, evidence)
