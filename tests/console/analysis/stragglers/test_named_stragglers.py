"""Named stragglers stay named until they are clearly no slower than their peers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.blocks import WINDOW, Blocks
from tfscale.console.analysis.stragglers.named_stragglers import NamedStragglers, ReportedStraggler
from tfscale.console.analysis.stragglers.straggler_figures import straggler_figures
from tfscale.console.analysis.stragglers.straggler_rule import Rule, Suspect, Verdict
from tfscale.core.records.diagnosis import Diagnosis


def steps(*ratios: float, count: int = 400) -> AlignedSteps:
    """Return steps of 100 ms with 20 ms of compute, times each subject's ratio."""
    lag = 0.02 * np.array(ratios) * np.exp(0.02 * np.random.default_rng(0).normal(size=(count, len(ratios))))
    phases = np.stack([lag * 0, lag * 0, lag * 0, lag, 0.1 - lag]).astype(np.float32)
    subjects = tuple(f"worker:{column}" for column in range(len(ratios)))
    return AlignedSteps(subjects, np.arange(count), 0.1 * (np.arange(count) + 1.0), phases)


def judged(named: NamedStragglers, aligned: AlignedSteps, shown: AlignedSteps | None) -> list[list[int]]:
    """Judge the steps, with reports by the figures of `shown`, and return the columns of each report."""
    blocks, asked = Blocks(aligned.subjects, 0.5 * WINDOW), []
    blocks.append(aligned)

    def report(verdicts: Sequence[Verdict]) -> list[ReportedStraggler]:
        asked.append([verdict.column for verdict in verdicts])
        if shown is None:
            return []
        measured = straggler_figures(shown, asked[-1])
        names = [aligned.subjects[verdict.column] for verdict in verdicts]
        slow = [Diagnosis("straggler", name, 0.0, None, "warning", "") for name in names]
        return [ReportedStraggler(diagnosis, figures) for diagnosis, figures in zip(slow, measured, strict=True)]

    named.judge(blocks, report)
    return asked


def test_stragglers_are_measured_anew_at_every_evaluation_all_together() -> None:
    named = NamedStragglers(Rule())
    slow, both = steps(1.0, 2.0, 1.0, 1.0, 1.0), steps(1.0, 3.0, 1.0, 1.5, 1.0)
    assert judged(named, slow, slow) == [[1]]
    assert judged(named, slow, slow) == [[1]]
    assert judged(named, both, both) == [[1, 3]]
    assert list(named) == ["worker:1", "worker:3"] and named.figures["worker:1"].ratio == pytest.approx(3.0, rel=0.05)
    assert {figures.slowdown for figures in named.figures.values()} == {named.slowdown}


def test_it_ends_when_the_subject_is_as_fast_again_and_when_it_is_dropped() -> None:
    named, slow, equal = NamedStragglers(Rule()), steps(1.0, 2.0, 1.0), steps(1.0, 1.0, 1.0)
    judged(named, slow, slow)
    judged(named, equal, equal)
    assert named.diagnoses == [] and list(named.recovered) == ["worker:1"]
    judged(named, slow, slow)
    named.drop({"worker:1"})
    assert len(named) == 0


def test_a_suspect_is_one_until_it_is_named_and_is_none_whom_the_steps_contradict_or_who_is_dropped() -> None:
    named, equal = NamedStragglers(Rule()), steps(1.0, 1.0, 1.0, 1.0, 1.0)
    late = np.where(np.arange(400) < 330, 1.0, 2.0)[:, None]
    slow = replace(equal, phases=equal.phases.copy())
    slow.phases[3, :, 1:2] *= late
    judged(named, slow, steps(1.0, 2.0, 1.0, 1.0, 1.0))
    assert len(named) == 0 and named.suspect == Suspect("worker:1", pytest.approx(33.0, abs=0.6))
    named.drop({"worker:3"})
    assert named.suspect is None
    judged(named, slow, equal)
    assert named.suspect is None
    both = steps(1.0, 2.0, 1.0, 1.0, 1.0)
    judged(named, both, both)
    assert list(named) == ["worker:1"] and named.suspect is None


def test_nobody_is_named_whom_the_steps_of_the_window_contradict_or_do_not_show() -> None:
    named, slow = NamedStragglers(Rule()), steps(1.0, 2.0, 1.0)
    judged(named, slow, steps(1.0, 1.0, 1.0))
    judged(named, slow, None)
    assert len(named) == 0


def test_one_that_the_steps_no_longer_show_stays_as_it_was_until_it_has_recovered() -> None:
    named, slow = NamedStragglers(Rule()), steps(1.0, 2.0, 1.0, 1.0, 1.0)
    judged(named, slow, slow)
    before = named.figures["worker:1"]
    judged(named, slow, steps(1.0, 0.9, 1.0, 1.0, 1.0))
    assert named.figures["worker:1"] is before
    assert judged(named, steps(1.0, 2.0, 1.0, 2.0, 1.0), steps(1.0, 0.9, 1.0, 2.0, 1.0))[-1] == [3]
    assert list(named) == ["worker:1", "worker:3"] and named.figures["worker:1"] is before
