from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from phase_simulation import Simulation
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.findings import Findings
from tfscale.console.analysis.step_groups import keep_step
from tfscale.console.sources.simulation.step_phases import Slow
from tfscale.core.records.frame import Frame
from tfscale.core.records.probe_status import ProbeState, ProbeStatus

Make = Callable[[int], Diagnostician]
NO_STRATEGY = ProbeStatus(ProbeState.MEASURING, replicas=1, local_replicas=1, examples_per_step=64)
"""The status of a program that trains without a strategy, as the probe reports it."""


def without_a_strategy(
    simulation: Simulation, probe: ProbeStatus = NO_STRATEGY, apart: float = 0.001
) -> Iterator[tuple[str, Frame]]:
    """Yield the frames of programs whose steps reduce nothing that is seen.

    Each task makes its steps slower than the one before by the share `apart`; with 0 they end together.
    """
    random = np.random.default_rng(1)
    for task, frame in simulation.frames():
        slower = 1 + apart * int(task.partition(":")[2])
        steps = tuple(
            replace(batch, reduce=(), end=np.asarray(batch.end) * slower + random.normal(0, 0.001, len(batch.end)))
            for batch in frame.steps
        )
        yield task, replace(frame, probe=probe, steps=steps)


def seen(observer: Diagnostician, frames: Iterator[tuple[str, Frame]], last: str) -> list[Findings]:
    """Return the findings of each second, after the frame of the `last` task."""
    found = []
    for task, frame in frames:
        observer.observe(task, frame)
        if task == last:
            found.append(observer.diagnose(frame.at))
    return found


@pytest.mark.parametrize(
    "probe",
    [
        NO_STRATEGY,
        replace(NO_STRATEGY, strategy="MirroredStrategy", replicas=2, local_replicas=2),
        replace(NO_STRATEGY, strategy="MultiWorkerMirroredStrategy"),
    ],
    ids=["none", "within the process", "made for one worker"],
)
def test_trainings_that_no_strategy_joins_are_told_and_nobody_is_compared(
    diagnostician: Make, probe: ProbeStatus
) -> None:
    slow = Slow(worker=1, phase="input", extra=0.05, begin=20.0)
    found = seen(diagnostician(2), without_a_strategy(Simulation(seconds=60, slow=(slow,)), probe), "worker:1")
    assert {each.kind for findings in found for each in findings.diagnoses} == {"not_measured"}
    told = found[-1].diagnoses[0]
    assert (told.subject, told.severity, told.together) == ("cluster", "warning", ("worker:0", "worker:1"))
    assert found[-1].headline == told.sentence
    assert told.sentence == (
        "2 trainings run side by side, unless the script exchanges something itself: no strategy joins worker:0 and "
        "worker:1, and nobody is compared. For one training use MultiWorkerMirroredStrategy "
        "(examples/multi_worker_fit.py)"
    )
    assert all(summary.ratio is None and summary.wait is None for summary in found[-1].subjects.values())
    assert all(summary.lag is not None for summary in found[-1].subjects.values())


def test_of_many_only_some_are_named(diagnostician: Make) -> None:
    found = seen(diagnostician(64), without_a_strategy(Simulation(workers=64, seconds=3)), "worker:63")
    assert found[-1].headline.startswith("64 trainings run side by side")
    assert "joins worker:0, worker:1, worker:2 and 61 others, and" in found[-1].headline


def test_nothing_is_said_before_a_step_of_a_single_training_and_where_the_strategy_is_not_known(
    diagnostician: Make,
) -> None:
    def kinds(frames: Iterator[tuple[str, Frame]], workers: int) -> set[str]:
        found = seen(diagnostician(workers), frames, f"worker:{workers - 1}")
        return {each.kind for findings in found for each in findings.diagnoses}

    before = ((task, replace(frame, steps=())) for task, frame in without_a_strategy(Simulation(seconds=3)))
    assert "not_measured" not in kinds(before, 2)
    assert "not_measured" not in kinds(without_a_strategy(Simulation(workers=1, seconds=3)), 1)
    unknown = ProbeStatus(ProbeState.MEASURING)
    assert "not_measured" not in kinds(without_a_strategy(Simulation(seconds=3), unknown), 2)


def test_steps_outside_of_a_strategy_that_joins_workers_leave_them_joined(diagnostician: Make) -> None:
    frames = list(Simulation(seconds=6).frames())
    mixed = ((task, replace(frame, probe=NO_STRATEGY) if frame.at > 3 else frame) for task, frame in frames)
    found = seen(diagnostician(2), mixed, "worker:1")
    assert not any(findings.diagnoses for findings in found)


def test_the_steps_of_each_go_on_after_a_restart_of_one_alone(diagnostician: Make) -> None:
    def restarted(task: str, frame: Frame) -> Frame:
        if task == "worker:0" or frame.at <= 10:
            return frame
        steps = tuple(replace(batch, generation=2) for batch in frame.steps)
        return replace(frame, status=replace(frame.status, generation=2), steps=steps)

    frames = ((task, restarted(task, frame)) for task, frame in without_a_strategy(Simulation(seconds=20)))
    found = seen(diagnostician(2), frames, "worker:1")[-1]
    assert found.subjects["worker:0"].step == found.subjects["worker:1"].step
    assert (found.subjects["worker:1"].step or 0) > 350
    assert found.headline.startswith("2 trainings run side by side")


def test_trainings_that_exchange_something_by_themselves_are_not_said_to_run_side_by_side(diagnostician: Make) -> None:
    found = seen(diagnostician(2), without_a_strategy(Simulation(seconds=40), apart=0.0), "worker:1")
    assert found[0].headline.startswith("2 trainings run side by side, unless the script exchanges something")
    assert found[-1].headline == (
        "worker:0 and worker:1 keep step, though no strategy joins them: the script seems to exchange something "
        "itself. Who waits for whom in that is not measured, and nobody is compared"
    )


@pytest.mark.parametrize("noise", ["normal", "lognormal"])
def test_independent_trainings_do_not_keep_step(noise: str) -> None:
    random = np.random.default_rng(1)
    steps = 0.1 + 0.01 * getattr(random, noise)(size=(2, 20_000))
    ends = steps.cumsum(axis=1)
    assert not any(keep_step(ends[:, last - 400 : last]) for last in range(400, 20_000, 50))


def test_trainings_that_meet_keep_step_also_where_one_is_late_in_each_step_and_its_clock_is_wrong() -> None:
    random = np.random.default_rng(1)
    ends = np.arange(400) * 0.1 + 0.01 * random.lognormal(size=(3, 400)) + np.array([[0.0], [0.05], [7.0]])
    assert keep_step(ends)
    assert not keep_step(ends[:, 1:])
