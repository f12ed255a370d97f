"""The cost of stragglers whose data come late: known where the others' input shows how fast it is by itself.

The others wait for such a straggler with batches in store, so that their waits do not show how fast their own input can
be: of equal workers that are all bound by their input, the one that is later by a hair looks as if it alone were. Two
things tell how fast the others can be: the steps before its data came late, and the time that their input's own Python
takes, which does not count while a full store holds it up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tfscale.console.analysis.stragglers.straggler_figures import StragglerFigures
from tfscale.console.analysis.stragglers.straggler_rule import Rule, Verdict

_UNEQUAL = 0.15
"""Gain from which on the input's own Python shows that a worker's input is slower than that of the others.

A first and a last call that are in the window in part move the seconds of each by up to a tenth, so that with 0.1 equal
inputs of seconds a batch could be named; with 0.3 an input that takes a third longer would not be. Of two generators of
30 ms (tests/e2e/causes/test_input_bound.py) the same was told throughout, of 20 and 80 ms 20.2 and 79.1 ms.
"""


@dataclass(frozen=True, slots=True)
class KnownCost:
    """Figures of a straggler with a cost that is no larger than what is known of the others."""

    figures: StragglerFigures
    is_alone: bool
    """False where its data come late, and nothing shows that the others' would come earlier."""


def known_cost(
    verdict: Verdict,
    verdicts: Iterable[Verdict],
    figures: StragglerFigures,
    own: float | None,
    peers: Sequence[float | None],
    rule: Rule,
) -> KnownCost:
    """Return what a straggler is known to cost, where its data come late; else the figures as they are.

    Where others of `verdicts` came late before it, the steps before all of them count. `own` and `peers` are the
    seconds a step that the Python of an input takes, the straggler's and its peers'; None where that is unknown.
    """
    if figures.phase != "input":
        return KnownCost(figures, True)
    before, by_python = _step_before(verdict, verdicts), _step_without(figures.step, own, peers)
    known = [step for step in (before, by_python) if step is not None]
    if not known:
        return KnownCost(figures, False)
    limited = replace(figures, slowdown=max(1.0, min(figures.slowdown, figures.step / max(max(known), 1e-9))))
    return KnownCost(limited, limited.cost >= (_UNEQUAL if before is None else rule.gain_off))


def _step_before(verdict: Verdict, verdicts: Iterable[Verdict]) -> float | None:
    """Return the seconds of a step before the straggler's data came late; None where they came late from the start."""
    before = [one.before for one in (verdict, *verdicts) if one.before is not None and one.begin <= verdict.begin]
    return min(before) if verdict.before is not None else None


def _step_without(step: float, own: float | None, peers: Sequence[float | None]) -> float | None:
    """Return the seconds of a step if the late input took no longer than the others', by the Python of both.

    All make the same steps, and the rest of the input is the same program. Python that takes longer than the step is
    that of calls beside each other, of which so many make a batch.
    """
    known = [seconds for seconds in peers if seconds is not None]
    if own is None or not known or len(known) < len(peers):
        return None
    return step - min(step, max(0.0, own - max(known)) / max(1.0, own / step))
