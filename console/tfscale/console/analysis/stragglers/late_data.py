"""The cost of stragglers whose data come late: known where the others' input shows its own speed.

The others wait for such a straggler with batches in store, so that their waits do not show their own input's speed: of
equal workers that are all bound by their input, the last by a hair looks like the only slow one. Two measurements show
the others' speed: the steps before the straggler's data came late, and the time of their input's own Python, which does
not count while a full store holds it up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tfscale.console.analysis.stragglers.straggler_figures import StragglerFigures
from tfscale.console.analysis.stragglers.straggler_rule import Rule, Verdict

_UNEQUAL = 0.15
"""Gain from which on the input's own Python shows that a worker's input is slower than that of the others.

The first and the last call of the window are in it in part, which moves the seconds by up to a tenth: with 0.1 equal
inputs of seconds a batch could be named; with 0.3 an input that takes a third longer would not be. Of two generators of
30 ms (tests/e2e/causes/test_input_bound.py) the result was equal throughout, of 20 and 80 ms 20.2 and 79.1 ms.
"""


@dataclass(frozen=True, slots=True)
class KnownCost:
    """Figures of a straggler with a cost no larger than the others' known speed allows."""

    figures: StragglerFigures
    is_alone: bool
    """False where its data come late, and nothing shows that the others' data would come earlier."""


def known_cost(
    verdict: Verdict,
    verdicts: Iterable[Verdict],
    figures: StragglerFigures,
    own: float | None,
    peers: Sequence[float | None],
    rule: Rule,
) -> KnownCost:
    """Return the figures with the known cost of a straggler whose data come late; of any other straggler unchanged.

    Where others of `verdicts` came late earlier, the steps before all of them count. `own` and `peers` are the seconds
    a step of an input's Python, the straggler's and its peers'; None where unknown.
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
    """Return the seconds of a step before the straggler's data came late; None where they did from the start."""
    before = [one.before for one in (verdict, *verdicts) if one.before is not None and one.begin <= verdict.begin]
    return min(before) if verdict.before is not None else None


def _step_without(step: float, own: float | None, peers: Sequence[float | None]) -> float | None:
    """Return the seconds of a step if the late input took no longer than the others', by the Python of both.

    All make the same steps, and the rest of the input is the same program. Python that takes longer than the step is
    the sum of parallel calls, several of which make a batch.
    """
    known = [seconds for seconds in peers if seconds is not None]
    if own is None or not known or len(known) < len(peers):
        return None
    return step - min(step, max(0.0, own - max(known)) / max(1.0, own / step))
