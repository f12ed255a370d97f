"""The cost of stragglers whose data come late, as far as it is known.

The others wait for such a straggler with batches in store, so that their own input shows nothing of how fast it can be:
of equal workers that are all bound by their input, the one that is later by a hair looks as if it alone were. Only the
steps before its onset tell how fast the others can be.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tfscale.console.analysis.stragglers.straggler_figures import StragglerFigures
from tfscale.console.analysis.stragglers.straggler_rule import Verdict

AT_MOST = "at_most"
"""Evidence (`cost_is`) of a straggler whose cost is a bound alone."""


def is_bound(verdict: Verdict, figures: StragglerFigures) -> bool:
    """Decide whether the cost of a straggler is a bound alone: it is slow as long as it is known."""
    return figures.phase == "input" and verdict.before is None


def is_nothing(verdict: Verdict, figures: StragglerFigures, least: float) -> bool:
    """Decide whether it is known that a straggler, by figures from `as_known`, costs less than this share."""
    return figures.phase == "input" and verdict.before is not None and figures.cost < least


def as_known(verdict: Verdict, verdicts: Iterable[Verdict], figures: StragglerFigures) -> StragglerFigures:
    """Return the figures with a cost that is no larger than what the steps grew by."""
    grown = _growth(verdict, verdicts, figures)
    return figures if grown is None else replace(figures, slowdown=max(1.0, min(figures.slowdown, grown)))


def _growth(verdict: Verdict, verdicts: Iterable[Verdict], figures: StragglerFigures) -> float | None:
    """Return the factor by which the step is longer than before the straggler's data came late; None unknown.

    Where others of `verdicts` came late before it, the steps before all of them count.
    """
    before = [one.before for one in (verdict, *verdicts) if one.before is not None and one.begin <= verdict.begin]
    return figures.step / min(before) if figures.phase == "input" and verdict.before is not None else None
