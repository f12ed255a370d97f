"""GPU-hours and money that a finding costs an hour."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from phase_simulation import Simulation
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.findings import loss_of
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.run.live_cost import gpus_at_work, with_live_cost
from tfscale.console.sources.simulation.step_phases import Slow
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.gpu_price import GpuPrice
from tfscale.core.cluster.task import Task
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.probe_status import Devices, ProbeState, ProbeStatus
from tfscale.core.records.task_status import TaskState, TaskStatus


def straggler(**evidence: float | str | None) -> Diagnosis:
    sentence = "worker:1 has been slow. The cluster loses 25%."
    return Diagnosis("straggler", "worker:1", 0.0, None, "serious", sentence, {"slowdown": 4 / 3, **evidence})


def task(name: str, gpus: int | None, state: TaskState = TaskState.RUNNING) -> ObservedTask:
    observed = ObservedTask(Task.parse(name))
    observed.status = TaskStatus(state)
    devices = None if gpus is None else Devices(gpus_found=gpus, gpus=gpus, tpus=0)
    observed.probe = ProbeStatus(ProbeState.MEASURING, devices=devices)
    return observed


def test_a_loss_is_told_in_gpu_hours_an_hour_and_in_money_where_it_has_a_price() -> None:
    (priced,) = with_live_cost([straggler()], 8, None)
    assert priced.sentence == "worker:1 has been slow. The cluster loses 25% (2 GPU-h an hour)."
    assert priced.evidence["gpu_hours_per_hour"] == pytest.approx(2.0)
    (priced,) = with_live_cost([straggler()], 3, GpuPrice(2.0, "EUR"))
    assert priced.sentence.endswith("loses 25% (0.75 GPU-h or 1.50 EUR an hour).")
    assert (priced.evidence["money_per_hour"], priced.evidence["currency"]) == (pytest.approx(1.5), "EUR")


def test_without_a_known_gpu_or_a_loss_nothing_is_said() -> None:
    told = [straggler(), straggler(slowdown=1.0), replace(straggler(), kind="slow_link", evidence={"ratio": 4.0})]
    assert with_live_cost(told, None, GpuPrice(2.0)) == told
    assert with_live_cost(told[1:], 8, GpuPrice(2.0)) == told[1:]


def test_the_loss_of_other_findings_is_what_they_say_that_they_cost() -> None:
    assert loss_of(Diagnosis("pauses", "worker:1", 0.0, None, "warning", "", {"cost": 0.12})) == 0.12
    assert loss_of(Diagnosis("saturation", "cluster", 0.0, None, "info", "", {"fraction": 0.9})) is None


def test_the_gpus_are_those_of_running_tasks_and_unknown_where_one_has_not_told() -> None:
    assert gpus_at_work([task("worker:0", 8), task("worker:1", 4), task("ps:0", None)]) == 12
    assert gpus_at_work([task("worker:0", 8), task("worker:1", 8, TaskState.EXITED)]) == 8
    assert gpus_at_work([task("worker:0", 8), task("worker:1", None)]) is None
    assert gpus_at_work([task("worker:0", 0)]) is None


@pytest.mark.parametrize("gpus", [1, None])
def test_the_headline_of_a_straggler_tells_what_it_costs_an_hour(
    cluster: Callable[[int], ClusterSpec], gpus: int | None
) -> None:
    observer = Diagnostician(replace(cluster(3), gpu_price=GpuPrice(3.0)))
    devices = Devices(gpus, gpus, 0) if gpus else None
    for index in range(3):
        observer.note_link(f"worker:{index}", True, 0.0)
    for name, frame in Simulation(3, 10.0, 40.0, slow=(Slow(1, ratio=2.0, begin=20.0),)).frames():
        assert frame.probe is not None
        observer.observe(name, replace(frame, probe=replace(frame.probe, devices=devices)))
        if name == "worker:2":
            findings = observer.diagnose(frame.at)
    (slow,) = findings.diagnoses
    lost = 1 - 1 / (findings.slowdown or 1.0)
    assert findings.headline == slow.sentence
    assert slow.evidence.get("gpu_hours_per_hour") == (pytest.approx(3 * lost) if gpus else None)
    assert (f" ({3 * lost:.2g} GPU-h or {9 * lost:.2f} USD an hour)." in findings.headline) is bool(gpus)
