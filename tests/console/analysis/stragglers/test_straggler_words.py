"""One sentence about all stragglers, from the figures that are in the evidence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.stragglers.straggler_figures import StragglerFigures, straggler_figures
from tfscale.console.analysis.stragglers.straggler_rule import Suspect, Verdict
from tfscale.console.analysis.stragglers.straggler_words import (
    TWO_KINDS,
    evidence_of,
    in_range,
    looks_slow,
    names_of,
    slower_than_peers,
    together,
    told_together,
    what_is_lost,
)
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.text import clock, times

EIGHT = tuple(f"worker:{column}" for column in range(8))


def measured(*ratios: float) -> tuple[list[Verdict], list[StragglerFigures]]:
    """Return the verdicts on those of ratios above 1, and their figures: 20 ms of compute, times the ratio."""
    lag = 0.02 * np.array(ratios) * np.ones((400, 1))
    phases = np.stack([lag * 0, lag * 0, lag * 0, lag, 0.1 - lag]).astype(np.float32)
    subjects = tuple(f"worker:{column}" for column in range(len(ratios)))
    steps = AlignedSteps(subjects, np.arange(400), 0.1 * np.arange(1.0, 401), phases)
    columns = [column for column, ratio in enumerate(ratios) if ratio > 1]
    verdicts = [Verdict(column, 20, ratios[column], 10.0 + column) for column in columns]
    return verdicts, straggler_figures(steps, columns)


def test_sentence_and_evidence_of_one_have_the_same_figures() -> None:
    verdicts, figures = measured(1.0, 2.0)
    sentence = slower_than_peers(EIGHT[:2], verdicts, figures)
    assert sentence == f"worker:1 has been slow since {clock(11.0)}: compute takes 40.0 ms, worker:0's 20.0 ms (2.0x)"
    assert what_is_lost(figures) == "the cluster loses 20%"
    (evidence,) = evidence_of(EIGHT[:2], verdicts, figures)
    assert (evidence["ratio"], evidence["phase"]) == (figures[0].ratio, "compute")
    assert evidence["excess"] == figures[0].excess["compute"]
    assert together(EIGHT[:2], verdicts) == () and "suspected" not in evidence


def test_several_have_one_sentence_with_one_cost_since_the_newest_onset() -> None:
    verdicts, figures = measured(1.4, 1.0, 1.4, 1.0, 1.4, 1.0, 1.4, 1.0)
    assert slower_than_peers(EIGHT, verdicts, figures) == (
        f"4 of 8 workers (worker:0, 2, 4 and 6) have been slow since {clock(16.0)}: compute takes 28.0 ms, the others' "
        "20.0 ms (1.4x)"
    )
    assert what_is_lost(figures) == "the cluster loses 8%"
    assert together(EIGHT, verdicts) == ("worker:0", "worker:2", "worker:4", "worker:6")


def test_several_that_differ_have_a_range_and_those_of_different_phases_a_clause_each() -> None:
    verdicts, figures = measured(1.2, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    assert slower_than_peers(EIGHT, verdicts, figures).endswith(
        ": compute takes 24.0 ms to 40.0 ms, the others' 20.0 ms (1.2x to 2.0x)"
    )
    late = replace(figures[1], phase="input", own={"input": 0.03}, excess={"input": 0.025})
    assert slower_than_peers(EIGHT, verdicts, [figures[0], late]).endswith(
        ": in worker:0 compute takes 24.0 ms, the others' 20.0 ms (1.2x); in worker:2 waiting for data takes 30.0 ms, "
        "the others' 5.00 ms (6.0x)"
    )


@pytest.mark.parametrize(
    ("ratios", "before", "phase", "suspected"),
    [
        ((1.4, 1.4, 1.0, 1.0), None, "compute", TWO_KINDS),
        ((1.4, 1.0, 1.0, 1.0), None, "compute", None),
        ((1.4, 1.4, 1.0, 1.0, 1.0), None, "compute", None),
        ((1.4, 1.4, 1.0, 1.0), 0.03, "compute", None),
        ((1.4, 1.4, 1.0, 1.0), None, "input", None),
    ],
)
def test_two_kinds_of_hardware_are_suspected_where_half_compute_slowly_as_long_as_they_are_known(
    ratios: tuple[float, ...], before: float | None, phase: str, suspected: str | None
) -> None:
    verdicts, figures = measured(*ratios)
    verdicts = [replace(verdict, before=before) for verdict in verdicts]
    found = evidence_of(EIGHT[: len(ratios)], verdicts, [replace(each, phase=phase) for each in figures])
    assert {evidence.get("suspected") for evidence in found} == {suspected}


def test_a_suspect_is_told_with_how_long_it_looks_slow() -> None:
    assert looks_slow(Suspect("worker:3", 10.0), 14.2) == "worker:3 looks slow, 4 s; not yet beyond noise"


def test_names_of_one_role_have_it_once() -> None:
    assert names_of(["worker:0", "worker:2"]) == "worker:0 and 2"
    assert names_of(["chief:0", "worker:0"]) == "chief:0 and worker:0"
    assert names_of(["worker:1/replica:0", "worker:1/replica:1"]) == "worker:1/replica:0 and worker:1/replica:1"
    assert names_of(["cluster"]) == "cluster"
    assert names_of([f"worker:{index}" for index in range(500)]) == "worker:0, 1, 2, 3, 4, 5, 6 and 493 others"


def test_numbers_that_are_alike_are_told_by_their_mean() -> None:
    assert in_range([1.38, 1.42], times) == "1.4x"
    assert in_range([1.2, 1.3, 2.0], times) == "1.2x to 2.0x"


def test_those_of_one_sentence_are_a_set_and_the_newest_is_the_first_of_it() -> None:
    both = ("worker:0", "worker:1")
    old = Diagnosis("straggler", "worker:0", 1.0, None, "warning", "", together=both)
    new, alone = replace(old, subject="worker:1", begin=9.0), replace(old, subject="worker:2", together=())
    assert told_together([old, alone, new]) == [[new, old], [alone]]
