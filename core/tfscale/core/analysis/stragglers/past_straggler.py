"""Stragglers that are over: told in the past tense, from all that was measured while they were open."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from tfscale.core.records import Diagnosis
from tfscale.core.text import clock, duration, times

_WORSE = 1.25
"""Worst over mean ratio from which on the worst is told, too (chosen)."""


@dataclass(slots=True)
class PastStraggler:
    """Sums of a straggler's figures over the evaluations in which it was open."""

    evaluations: int = 0
    worst_ratio: float = 0.0
    worst_cost: float = 0.0
    _ratios: float = 0.0
    _costs: float = 0.0
    _phases: Counter[str] = field(default_factory=Counter)
    _causes: Counter[str] = field(default_factory=Counter)

    def add(self, straggler: Diagnosis) -> None:
        """Take in the straggler as it is found now."""
        ratio, slowdown = _number(straggler, "ratio"), _number(straggler, "slowdown")
        cost = 1 - 1 / max(slowdown, 1.0)
        self.evaluations += 1
        self.worst_ratio, self.worst_cost = max(self.worst_ratio, ratio), max(self.worst_cost, cost)
        self._ratios, self._costs = self._ratios + ratio, self._costs + cost
        self._phases[str(straggler.evidence.get("phase"))] += 1
        self._causes[str(straggler.evidence.get("cause", "unknown"))] += 1

    def over(self, last: Diagnosis, end: float, recovered: bool) -> Diagnosis:
        """Return the straggler that was open up to `end`, by itself (`recovered`), or because its task ended.

        `last` is how it was found last.
        """
        ratio, cost = self._ratios / self.evaluations, self._costs / self.evaluations
        phase = self._phases.most_common(1)[0][0]
        worst = f" (at worst {times(self.worst_ratio)})" if self.worst_ratio >= _WORSE * ratio else ""
        together = last.evidence.get("together")
        sentence = (
            f"{last.subject} was {times(ratio)} slower{worst} in {phase} for {duration(max(0.0, end - last.begin))}; "
            f"the cluster lost {cost:.0%}{f' to it and {together}' if together else ''}"
        )
        if recovered:
            sentence += f"; normal since {clock(end)}"
        evidence = {
            **last.evidence,
            "ratio": ratio,
            "phase": phase,
            "slowdown": 1 / (1 - cost),
            "worst_ratio": self.worst_ratio,
            "worst_cost": self.worst_cost,
            "cause": self._usual_cause(),
        }
        return replace(last, end=end, sentence=sentence, evidence=evidence)

    def _usual_cause(self) -> str:
        """Return the cause that was found most often, unknown only where nothing else was."""
        known = [name for name, _ in self._causes.most_common() if name != "unknown"]
        return known[0] if known else "unknown"


def _number(straggler: Diagnosis, name: str) -> float:
    value = straggler.evidence.get(name)
    return float(value) if isinstance(value, float | int) else 1.0
