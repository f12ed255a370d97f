"""Named stragglers stay named until they are clearly no slower than their peers."""

from __future__ import annotations

import numpy as np
import pytest
from tfscale.core.analysis.steps.blocks import WINDOW, Blocks
from tfscale.core.analysis.steps.step_table import AlignedSteps
from tfscale.core.analysis.stragglers.named_stragglers import (
    NamedStragglers,
    ReportedStraggler,
    evidence_of,
    slower_than_peers,
)
from tfscale.core.analysis.stragglers.straggler_figures import straggler_figures
from tfscale.core.analysis.stragglers.straggler_rule import Rule, Verdict
from tfscale.core.records import Diagnosis


def steps(*ratios: float, count: int = 400) -> AlignedSteps:
    """Return steps of 100 ms with 20 ms of compute, times each subject's ratio."""
    lag = 0.02 * np.array(ratios) * np.exp(0.02 * np.random.default_rng(0).normal(size=(count, len(ratios))))
    phases = np.stack([lag * 0, lag * 0, lag * 0, lag, 0.1 - lag]).astype(np.float32)
    subjects = tuple(f"worker:{column}" for column in range(len(ratios)))
    return AlignedSteps(subjects, np.arange(count), 0.1 * (np.arange(count) + 1.0), phases)


def judged(named: NamedStragglers, aligned: AlignedSteps, shown: AlignedSteps | None) -> list[Verdict]:
    """Return the verdicts that are news, with reports by the figures of `shown`."""
    blocks, news = Blocks(aligned.subjects, 0.5 * WINDOW), []
    blocks.fold(aligned)

    def report(verdict: Verdict) -> ReportedStraggler | None:
        news.append(verdict)
        if shown is None:
            return None
        subject = aligned.subjects[verdict.column]
        diagnosis = Diagnosis("straggler", subject, verdict.begin, None, "warning", "")
        return ReportedStraggler(diagnosis, straggler_figures(shown, verdict.column))

    named.judge(blocks, report)
    return news


def test_a_verdict_is_reported_once_and_again_only_when_its_ratio_has_changed() -> None:
    named = NamedStragglers(Rule())
    slow, slower = steps(1.0, 2.0, 1.0), steps(1.0, 3.0, 1.0)
    assert [verdict.column for verdict in judged(named, slow, slow)] == [1]
    assert judged(named, slow, slow) == []
    assert len(judged(named, slower, slower)) == 1
    assert list(named) == ["worker:1"] and named.figures["worker:1"].ratio == pytest.approx(3.0, rel=0.05)


def test_it_ends_when_the_subject_is_as_fast_again_and_when_it_is_dropped() -> None:
    named, slow, equal = NamedStragglers(Rule()), steps(1.0, 2.0, 1.0), steps(1.0, 1.0, 1.0)
    judged(named, slow, slow)
    judged(named, equal, equal)
    assert named.diagnoses == []
    judged(named, slow, slow)
    named.drop({"worker:1"})
    assert len(named) == 0


def test_nobody_is_named_whom_the_steps_of_the_window_contradict_or_do_not_show() -> None:
    named, slow = NamedStragglers(Rule()), steps(1.0, 2.0, 1.0)
    judged(named, slow, steps(1.0, 1.0, 1.0))
    judged(named, slow, None)
    assert len(named) == 0


def test_sentence_and_evidence_have_the_same_figures() -> None:
    figures = straggler_figures(steps(1.0, 2.0), 1)
    sentence = slower_than_peers(("worker:0", "worker:1"), Verdict(1, 20, 9.0, 0.0, 0.0), figures)
    assert sentence.startswith("worker:1 has been slow since ")
    assert sentence.endswith(": compute takes 40.0 ms, worker:0's 20.0 ms (2.0x)")
    evidence = evidence_of(figures)
    assert (evidence["ratio"], evidence["phase"]) == (figures.ratio, "compute")
    assert evidence["excess"] == figures.excess["compute"]
