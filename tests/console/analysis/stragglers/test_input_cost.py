"""Stragglers whose data come late: what they cost is known by the steps before, and by nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.stragglers.straggler_rule import Rule
from tfscale.console.analysis.stragglers.straggler_watch import StragglerWatch
from tfscale.core.records.diagnosis import Diagnosis

STEP = 0.1


def told(*late: tuple[float, float], seconds: float = 120.0, workers: int = 2) -> list[list[Diagnosis]]:
    """Return what is told each second where worker:i waits for its data late[i] = (since when, seconds a step).

    A worker whose data come earlier than those of another one waits in the all-reduce in place of its input.
    """
    watch, found, ends = StragglerWatch(Rule()), [], []
    rng, at, rows = np.random.default_rng(0), 0.0, []
    while at < seconds:
        until = at + 1.0
        while at < until:
            need = np.array([wait if at >= since else 0.0 for since, wait in late] + [0.0] * (workers - len(late)))
            longest = need.argmax()
            waits = np.where(np.arange(workers) == longest, need, 0.0)
            lag = STEP * np.exp(0.01 * rng.normal(size=workers))
            at += lag.max() + waits.max() + 0.01
            rows.append(np.stack([0 * lag, 0 * lag, waits, lag, 0.01 + (lag + waits).max() - (lag + waits)]))
            ends.append(at)
        planes = np.moveaxis(np.array(rows, np.float32), 0, 1)
        names = tuple(f"worker:{index}" for index in range(workers))
        steps = AlignedSteps(names, np.arange(len(rows)), np.array(ends), planes)
        found.append(watch.diagnose(steps, steps.since))
    return found


def test_an_input_that_becomes_slow_costs_what_the_steps_grew_by() -> None:
    (straggler,) = told((40.0, 0.1))[-1]
    assert (straggler.subject, straggler.severity) == ("worker:0", "critical")
    assert "The cluster loses 4" in straggler.sentence and "up to" not in straggler.sentence


def test_an_input_that_was_slow_from_the_start_costs_no_more_than_that() -> None:
    """The other one may be as slow: it has batches in store."""
    (straggler,) = told((0.0, 0.1))[-1]
    assert (straggler.evidence["cost_is"], straggler.severity) == ("at_most", "warning")
    assert straggler.sentence.endswith("%: how fast the others' data can come is not known.")
    assert "The cluster loses up to " in straggler.sentence


def test_of_two_with_equally_slow_inputs_none_is_named_for_being_the_later_by_a_hair_now() -> None:
    """Both need 0.1 s: first the one, then the other is later by a hair."""
    named = [{each.subject for each in second} for second in told((0.0, 0.1), (60.0, 0.101))]
    assert named[50] == {"worker:0"}
    assert not any("worker:1" in second for second in named)


def test_two_whose_inputs_become_slow_one_after_the_other_are_both_named() -> None:
    named = [{each.subject for each in second} for second in told((40.0, 0.1), (80.0, 0.15), seconds=140, workers=3)]
    assert named[75] == {"worker:0"}
    assert "worker:1" in named[-1]


def test_the_later_one_of_two_costs_no_more_than_the_steps_grew_by() -> None:
    """The others' steps go back to 0.21 s, and not to 0.11 s, where it is repaired: the first one is slow, too."""
    found = told((40.0, 0.1), (80.0, 0.15), seconds=140, workers=3)[-1]
    (later,) = [each for each in found if each.subject == "worker:1"]
    assert later.evidence["slowdown"] == pytest.approx(0.26 / 0.21, rel=0.03)


def test_a_slow_input_that_the_steps_hardly_grew_by_is_no_severe_one() -> None:
    """The other one's data come nearly as late: that shows as soon as it is the later one no more."""
    known = [second for second in told((0.0, 0.1), (40.0, 0.104))[60:] if second]
    assert {each.severity for second in known for each in second} <= {"warning"}
