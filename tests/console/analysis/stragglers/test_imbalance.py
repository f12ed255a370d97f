"""Imbalance: a slowest subject in each step that is not always the same one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from phase_simulation import Noise, Simulation, frame
from simulated_runs import findings_by_second, simulated
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.finding_kinds import first_step
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.blocks import WINDOW, Blocks
from tfscale.console.analysis.stragglers.imbalance import ImbalanceWatch, lasting_imbalance, lost_time
from tfscale.console.engine.timeline.event_text import end_text

Make = Callable[[int], Diagnostician]
TRANSFER = 0.01
SLOW_AGAIN = ("worker:1=1.6x@3s-20s", "worker:1=1.6x@45s-75s", "worker:1=3x@75s")


def uneven(extra: float, count: int = 400) -> AlignedSteps:
    """Return steps of three workers with 50 ms of compute, and `extra` seconds of input for each in turn."""
    rows = np.arange(count)
    phases = np.zeros((5, count, 3), np.float32)
    phases[3] = 0.05
    phases[2, rows, rows % 3] = extra
    return AlignedSteps(("worker:0", "worker:1", "worker:2"), rows, 0.1 * (rows + 1.0), phases)


def blocks_of(steps: AlignedSteps) -> Blocks:
    blocks = Blocks(steps.subjects, window=0.1 * WINDOW)
    blocks.append(steps)
    return blocks


def test_the_cost_is_the_share_of_the_step_that_the_slowest_takes_longer() -> None:
    assert lasting_imbalance(blocks_of(uneven(0.05)).spread) == pytest.approx(0.5)
    assert lasting_imbalance(blocks_of(uneven(0.05, count=2 * WINDOW)).spread) == 0.0


def test_the_phase_is_that_in_which_the_slowest_loses_most() -> None:
    lost = lost_time(uneven(0.05)) or pytest.fail("nothing is lost")
    assert (lost.phase, lost.phase_share) == ("input", pytest.approx(1.0))
    assert lost.moves and lost.subject_share == pytest.approx(1 / 3, abs=0.01)
    assert lost_time(uneven(0.0)) is None
    assert lost_time(uneven(0.05, count=0)) is None


@pytest.mark.parametrize(
    ("share", "told"), [(1.0, "mostly worker:1"), (0.75, "mostly worker:1"), (0.55, "nobody to repair")]
)
def test_that_nobody_is_to_repair_is_said_only_where_it_is_not_always_the_same_one(share: float, told: str) -> None:
    steps = uneven(0.0)
    late = np.random.default_rng(0).random(len(steps))
    steps.phases[1, late < share, 1] = 0.05
    steps.phases[1, late >= share, 0] = 0.05
    watch = ImbalanceWatch()
    watch.judge(blocks_of(steps), steps.since)
    assert watch.diagnosis is not None and told in watch.diagnosis.sentence
    assert ("nobody to repair" in watch.diagnosis.sentence) == (told == "nobody to repair")


def test_of_one_whose_data_come_last_in_most_steps_nothing_is_said_to_be_lost() -> None:
    """The others wait for it with batches in store, and may be as slow."""
    steps = uneven(0.0)
    steps.phases[2, np.arange(len(steps)) % 4 > 0, 1] = 0.05
    watch = ImbalanceWatch()
    watch.judge(blocks_of(steps), steps.since)
    assert watch.diagnosis is None


def test_what_a_straggler_cost_is_no_imbalance_after_it() -> None:
    watch, steps = ImbalanceWatch(), uneven(0.05)
    blocks = blocks_of(steps)
    watch.interrupt(float(blocks.end[-2 * WINDOW]))
    watch.judge(blocks, steps.since)
    assert watch.diagnosis is None


def test_an_imbalance_ends_below_the_bound_at_which_it_ends_not_at_that_at_which_it_begins() -> None:
    watch = ImbalanceWatch()
    for extra, is_open in [(0.007, False), (0.01, True), (0.007, True), (0.005, False)]:
        watch.judge(blocks_of(uneven(extra)), uneven(extra).since)
        assert (watch.diagnosis is not None) == is_open, extra


def test_work_that_moves_in_the_beat_of_the_blocks_is_an_imbalance_and_nobody_is_named(diagnostician: Make) -> None:
    end, phases = Simulation(4, 20.0, 40.0, Noise(0.02)).steps()
    rows = np.arange(len(end))
    phases[2, rows, (rows // 3) % 4] += 0.03
    phases[-1] = TRANSFER + phases[:-1].sum(axis=0).max(axis=1, keepdims=True) - phases[:-1].sum(axis=0)
    end = np.cumsum(phases.sum(axis=0)[:, 0])
    observer = diagnostician(4)
    for second in range(1, 40):
        low, high = (int(row) for row in np.searchsorted(end, [second - 1, second]))
        for worker in range(4):
            observer.observe(f"worker:{worker}", frame(worker, float(second), end, phases, low, high))
        diagnoses = observer.diagnose(float(second)).diagnoses
        assert {(each.kind, each.evidence.get("phase")) for each in diagnoses} <= {("imbalance", "input")}
    assert len(diagnoses) == 1


def test_of_one_that_is_slow_in_each_step_and_not_named_yet_only_what_is_known_is_told_until_it_is_named() -> None:
    seconds = findings_by_second(simulated(100, 4, *SLOW_AGAIN), 4)
    found = [each for _, findings in seconds for each in findings.diagnoses if each.kind == "imbalance"]
    assert found[-1].end is not None and end_text(found[-1]).startswith(
        "not judged beside a straggler; until then it was "
    )
    assert seconds[-1][1].top is not None and seconds[-1][1].top.kind == "straggler"
    for each in found:
        assert "mostly worker:1 (" in each.sentence and "some of its steps" not in each.sentence
        assert (first_step(each) or "").startswith("take a profile")
