from collections.abc import Callable
from dataclasses import replace

import pytest
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.tasks.unused_gpus import unused_gpus
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import GpuSample
from tfscale.core.records.probe_status import Devices, ProbeState, ProbeStatus
from tfscale.core.records.step_batch import Coordinator

View = Callable[..., ObservedTask]
MEASURING = ProbeStatus(ProbeState.MEASURING, tensorflow="2.21.0")


def task(view: View, index: int, gpus: int, host: int = 4, found: int = 0, why: str = "") -> ObservedTask:
    probe = replace(MEASURING, devices=Devices(found or gpus, gpus, 0, why))
    return view(f"worker:{index}", probe=probe, progressed=9.0, gpus=host)


def sentences(*tasks: ObservedTask) -> list[str]:
    told = unused_gpus(tasks)
    assert all((each.kind, each.severity, each.begin) == ("unused_gpus", "serious", 0.0) for each in told)
    return [each.sentence for each in told]


@pytest.mark.parametrize(("why", "said"), [("no libcudnn.so.9", "no libcudnn.so.9"), ("", "its log says why")])
def test_a_worker_that_trains_on_its_cpu_beside_gpus_is_named(view: View, why: str, said: str) -> None:
    assert sentences(task(view, 0, 4), task(view, 1, 0, why=why)) == [
        f"worker:1 trains on its CPU: TensorFlow 2.21 found none of the host's 4 GPUs: {said}"
    ]


def test_gpus_that_the_script_hides_are_told(view: View) -> None:
    assert sentences(task(view, 0, 0, host=1, found=1)) == [
        "worker:0 trains on its CPU: its script hides the 1 GPU that TensorFlow has found (set_visible_devices)"
    ]


def test_fewer_gpus_than_those_of_most_peers_are_told(view: View) -> None:
    assert sentences(task(view, 0, 4), task(view, 1, 4), task(view, 2, 1)) == [
        "worker:2 trains on 1 GPU, most of its peers on 4 GPUs each"
    ]
    assert sentences(task(view, 0, 4), task(view, 1, 0, host=0, why="no libcuda.so.1")) == [
        "worker:1 trains on its CPU, most of its peers on 4 GPUs each"
    ]


def test_a_host_without_gpus_and_what_is_not_known_yet_are_nothing(view: View) -> None:
    silent = view("worker:1", probe=MEASURING, progressed=9.0, gpus=4)
    before = task(view, 2, 0)
    before.progressed = None
    assert sentences(task(view, 0, 0, host=0, why="no libcuda.so.1"), silent, before) == []


def test_a_coordinator_needs_no_gpu(view: View) -> None:
    chief = view("chief:0", probe=replace(MEASURING, devices=Devices(0, 0, 0)), progressed=9.0, gpus=4)
    chief.coordinator = Coordinator(9.0, 0, 0.0)
    assert sentences(chief) == []


def test_the_hosts_gpus_are_counted_also_where_nvml_answers_late(view: View, frame: Callable[..., Frame]) -> None:
    watched = view("worker:0", probe=None)
    probe = replace(MEASURING, devices=Devices(0, 0, 0))
    gpus = tuple(GpuSample(index, f"GPU-{index}", "Fake H100") for index in range(4))
    watched.observe(frame(1.0, probe=probe))
    assert watched.gpus == 0
    watched.observe(frame(2.0, probe=probe, gpus=gpus))
    assert watched.gpus == 4
