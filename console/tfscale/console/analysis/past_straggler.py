"""Past stragglers: told in the past tense, from all measurements while they were open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tfscale.console.analysis.causes.cause_rules import OF_ONE_PHASE
from tfscale.console.analysis.causes.cause_words import IN_A_WORD
from tfscale.console.analysis.findings import loss_of
from tfscale.console.analysis.run import live_cost
from tfscale.console.analysis.stragglers.straggler_words import MOST_NAMES, in_range, names_of
from tfscale.core.cluster.task import subject_order
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.text import clock, duration, listing, times

_WORSE = 1.25
"""Worst over mean ratio from which on the worst is also told: below, both would read as the same number twice."""


@dataclass(slots=True)
class _PhaseRatios:
    """Sum and maximum of the quoted factors of one phase."""

    count: int = 0
    total: float = 0.0
    worst: float = 0.0

    def add(self, ratio: float) -> None:
        self.count, self.total, self.worst = self.count + 1, self.total + ratio, max(self.worst, ratio)


@dataclass(slots=True)
class PastStraggler:
    """Sums of a straggler's figures over the evaluations in which it was open."""

    evaluations: int = 0
    worst_cost: float = 0.0
    _ratios: float = 0.0
    _costs: float = 0.0
    _phases: Counter[str] = field(default_factory=Counter)
    _phase_ratios: dict[str, _PhaseRatios] = field(default_factory=dict)
    _causes: Counter[str] = field(default_factory=Counter)

    def add(self, straggler: Diagnosis) -> None:
        """Add the straggler's present figures."""
        ratio, cost = straggler.number("ratio") or 1.0, loss_of(straggler) or 0.0
        self.evaluations += 1
        self.worst_cost = max(self.worst_cost, cost)
        self._ratios, self._costs = self._ratios + ratio, self._costs + cost
        phase, phase_ratio = str(straggler.evidence.get("phase")), straggler.number("phase_ratio")
        self._phases[phase] += 1
        if phase_ratio is not None:
            self._phase_ratios.setdefault(phase, _PhaseRatios()).add(phase_ratio)
        self._causes[str(straggler.evidence.get("cause", "unknown"))] += 1

    def over(self, last: Diagnosis, end: float) -> Diagnosis:
        """Return the straggler that was open up to `end`, with its figures over all that time.

        `last` is its last diagnosis; `past_tense` writes the sentence.
        """
        cost, phase = self._costs / self.evaluations, self._phases.most_common(1)[0][0]
        ratios = self._phase_ratios.get(phase)
        of_phase = {"phase_ratio": ratios.total / ratios.count, "worst_phase_ratio": ratios.worst} if ratios else {}
        left_out = {*live_cost.EVIDENCE, "phase_ratio"}
        evidence = {
            **{name: value for name, value in last.evidence.items() if name not in left_out},
            "ratio": self._ratios / self.evaluations,
            "phase": phase,
            **of_phase,
            "slowdown": 1 / (1 - cost),
            "worst_cost": self.worst_cost,
            "cause": self._usual_cause(phase),
        }
        return replace(last, end=end, evidence=evidence)

    def _usual_cause(self, phase: str) -> str:
        """Return the most frequent cause; unknown only where no other known cause fits this phase."""
        others = {"unknown", *OF_ONE_PHASE} - {phase}
        return next((name for name, _ in self._causes.most_common() if name not in others), "unknown")


def past_tense(over: Sequence[Diagnosis], recovered: bool) -> list[Diagnosis]:
    """Return stragglers that ended together, the newest first, with a sentence in the past tense.

    They ended by themselves (`recovered`), or because their tasks ended.
    """
    newest, end = over[0], max(each.end or each.begin for each in over)
    subjects = sorted((each.subject for each in over), key=subject_order)
    phases = listing(list(dict.fromkeys(str(each.evidence["phase"]) for each in over)))
    cost = max(loss_of(each) or 0.0 for each in over)
    others = [name for name in newest.together if name not in subjects]
    beside = f" to {'it' if len(over) == 1 else 'them'} and {listing(others, most=MOST_NAMES)}" if others else ""
    causes = {str(each.evidence["cause"]) for each in over}
    cause = causes.pop() if len(causes) == 1 else ""
    # What the phase says needs no second word.
    why = f", likely {IN_A_WORD[cause]}" if cause in IN_A_WORD and cause != phases else ""
    sentence = (
        f"{names_of(subjects)} {'was' if len(over) == 1 else 'were'} {_slower(over)} in "
        f"{phases} for {'more than ' if newest.began_earlier else ''}{duration(max(0.0, end - newest.begin))}{why}; "
        f"the cluster lost {cost:.0%}{beside}"
    )
    if recovered:
        sentence += f"; normal since {clock(end)}"
    together = tuple(subjects) if len(subjects) > 1 else ()
    return [replace(each, sentence=sentence, together=together) for each in over]


def _slower(over: Sequence[Diagnosis]) -> str:
    """Return by how much these were slower in their phase, and at worst; without a factor that says nothing."""
    ratios = [ratio for each in over if (ratio := each.number("phase_ratio")) is not None]
    if len(ratios) < len(over):
        return "slower"
    worst = max(each.number("worst_phase_ratio") or 1.0 for each in over)
    at_worst = f" (at worst {times(worst)})" if worst >= _WORSE * max(ratios) else ""
    return f"{in_range(ratios, times)} slower{at_worst}"
