"""Orders of passes: complete, possible, as deep in memory as the papers say, and with the bubble of the formula."""

from __future__ import annotations

import pytest
from tfscale.trainer.model_parallelism.schedules import (
    BACKWARD,
    FORWARD,
    SCHEDULES,
    Pass,
    Span,
    expected_bubble,
    measured_bubble,
    most_held,
)

SIZES = [(stages, micro_batches) for stages in (1, 2, 4) for micro_batches in range(1, 9)]
SECONDS = {FORWARD: 1.0, BACKWARD: 2.0}


def orders(schedule: str, stages: int, micro_batches: int) -> list[list[Pass]]:
    return [SCHEDULES[schedule](stage, stages, micro_batches) for stage in range(stages)]


def needed(stage: int, each: Pass, stages: int) -> tuple[int, Pass] | None:
    """Return the stage and the pass whose result this one waits for."""
    if each.kind == FORWARD:
        return (stage - 1, each) if stage else None
    return (stage + 1, each) if stage + 1 < stages else (stage, Pass(FORWARD, each.micro_batch))


def timed(passes: list[list[Pass]]) -> list[list[Span]]:
    """Spans of equal stages that begin each pass as soon as the one before and the one that it needs have ended."""
    ends: dict[tuple[int, Pass], float] = {}
    spans: list[list[Span]] = [[] for _ in passes]
    waiting = [list(order) for order in passes]
    while any(waiting):
        moved = False
        for stage, order in enumerate(waiting):
            while order and ((before := needed(stage, order[0], len(passes))) is None or before in ends):
                begin = max(ends[before] if before else 0, spans[stage][-1].end if spans[stage] else 0)
                spans[stage].append(Span(begin, begin + SECONDS[order[0].kind]))
                ends[stage, order.pop(0)] = spans[stage][-1].end
                moved = True
        assert moved, "each stage waits for another"
    return spans


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("stages", "micro_batches"), SIZES)
def test_each_micro_batch_goes_once_forward_and_then_once_back(schedule: str, stages: int, micro_batches: int) -> None:
    for order in orders(schedule, stages, micro_batches):
        assert len(order) == len(set(order)) == 2 * micro_batches
        for index in range(micro_batches):
            assert order.index(Pass(FORWARD, index)) < order.index(Pass(BACKWARD, index))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("stages", "micro_batches"), SIZES)
def test_the_bubble_of_equal_stages_is_that_of_the_formula(schedule: str, stages: int, micro_batches: int) -> None:
    spans = timed(orders(schedule, stages, micro_batches))
    assert measured_bubble(spans) == pytest.approx(expected_bubble(stages, micro_batches))


@pytest.mark.parametrize(
    ("stages", "micro_batches", "percent"),
    [(2, 1, 50), (2, 2, 33.3), (2, 4, 20), (2, 8, 11.1), (4, 4, 42.9), (4, 8, 27.3), (1, 8, 0)],
)
def test_the_formula_gives_the_published_bubbles(stages: int, micro_batches: int, percent: float) -> None:
    assert 100 * expected_bubble(stages, micro_batches) == pytest.approx(percent, abs=0.05)


@pytest.mark.parametrize(("stages", "micro_batches"), SIZES)
def test_gpipe_holds_every_micro_batch_and_1f1b_one_for_each_stage_that_follows(
    stages: int, micro_batches: int
) -> None:
    assert {most_held(order) for order in orders("gpipe", stages, micro_batches)} == {micro_batches}
    held = [most_held(order) for order in orders("1f1b", stages, micro_batches)]
    assert held == [min(stages - stage, micro_batches) for stage in range(stages)]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("stages", "micro_batches"), SIZES)
def test_neighbours_pass_results_in_the_same_order(schedule: str, stages: int, micro_batches: int) -> None:
    """A queue between them is then enough."""
    passes = orders(schedule, stages, micro_batches)
    for kind in (FORWARD, BACKWARD):
        assert len({tuple(each for each in order if each.kind == kind) for order in passes}) == 1


def test_a_bubble_is_the_idle_share_between_the_first_begin_and_the_last_end() -> None:
    assert measured_bubble([[Span(10, 12), Span(13, 14)], [Span(12, 13)]]) == pytest.approx(0.5)
