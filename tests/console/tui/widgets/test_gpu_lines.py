"""Lines about GPUs, and the placement of ranks on them."""

from __future__ import annotations

from dataclasses import replace

import fakes
from tfscale.console.analysis.findings import Findings
from tfscale.console.engine.events import LinkState
from tfscale.console.engine.model import Link, Snapshot, TaskView
from tfscale.console.tui.widgets.panes import gpu_lines
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.records.host_sample import GpuSample, Interface
from tfscale.core.records.probe_status import Devices, ProbeState, ProbeStatus

GPU = GpuSample(0, "GPU-0", "NVIDIA A100", 0.93, 33_000_000_000, 40_000_000_000, 310.0, 400.0, 66.0, 1_200_000_000)


def test_the_peak_of_tensorflows_memory_is_told_of_each_device() -> None:
    def told(*peaks: int) -> str:
        return gpu_lines.peak_memory(ProbeStatus(ProbeState.MEASURING, memory_peaks=peaks))

    assert told() == "", "before the first steps, and where nobody counts"
    both = "at most 31.3 GB on GPU:0, 900 MB on GPU:1, by TensorFlow's own counter"
    assert told(31_300_000_000, 900_000_000) == both


def test_the_operations_of_a_step_are_those_that_are_counted_and_the_others_are_named() -> None:
    probe = ProbeStatus(ProbeState.MEASURING, flops_per_step=12_300_000_000)
    assert gpu_lines.step_flops(replace(probe, flops_per_step=None), 0.03, 1e12) == ""
    known = "at least 12.3 GFLOP a step, 410 GFLOP/s, by TensorFlow's counts"
    assert gpu_lines.step_flops(probe, 0.03, None) == known
    unknown = replace(probe, flops_uncounted=("CudnnRNNV3",))
    told = gpu_lines.step_flops(unknown, None, 1e12)
    assert told.endswith("a step, by TensorFlow's counts; not counted: CudnnRNNV3")


def test_a_stated_peak_gives_the_share_of_all_devices_and_one_that_is_exceeded_is_called_too_low() -> None:
    probe = ProbeStatus(ProbeState.MEASURING, flops_per_step=12_300_000_000, local_replicas=2)

    def told(peak: float) -> str:
        return gpu_lines.step_flops(probe, 0.03, peak).partition("GFLOP/s, ")[2]

    assert told(1.3e12) == "MFU 16% of 1.30 TFLOP/s x 2, by TensorFlow's counts"
    assert told(989e12) == "MFU 0.021% of 989 TFLOP/s x 2, by TensorFlow's counts"
    low = "MFU 205% of 100 GFLOP/s x 2, by TensorFlow's counts; the peak in the cluster file is too low"
    assert told(1e11) == low


def snapshot(*hosts: str, replicas: int = 1, cards: int = 1) -> Snapshot:
    views = []
    for index, host in enumerate(hosts):
        frame = fakes.frame(fakes.worker(index))
        assert frame.probe is not None and frame.host is not None
        probe = replace(frame.probe, local_replicas=replicas, ranks=replicas * len(hosts))
        links = (Interface("lo", 9e9, 9e9, None), Interface("eth0", 1.0, 1.0, None), Interface("ib0", 5e6, 1.0, None))
        samples = tuple(replace(GPU, index=card) for card in range(cards))
        frame = replace(frame, probe=probe, gpus=samples, host=replace(frame.host, interfaces=links))
        views.append(TaskView(fakes.worker(index), Address(host, 7070), Link(LinkState.UP), frame=frame))
    return Snapshot(fakes.NOW, "digits", None, 1, tuple(views), Findings())


def on_cpu(shown: Snapshot) -> Snapshot:
    """Let TensorFlow see no accelerator in any task."""
    views = []
    for view in shown.tasks:
        assert view.frame is not None and view.frame.probe is not None
        probe = replace(view.frame.probe, devices=Devices(0, 0, 0))
        views.append(replace(view, frame=replace(view.frame, probe=probe)))
    return replace(shown, tasks=tuple(views))


def placed(shown: Snapshot, index: int) -> str | None:
    return gpu_lines.placement(shown.view(fakes.worker(index)), shown)


def test_what_is_unknown_is_not_said() -> None:
    assert gpu_lines.running(GPU) == "93%   33.0 GB of 40.0 GB   1200 MHz   310 of 400 W   66 °C   A100"
    assert gpu_lines.running(GpuSample(0, "u", "T4")) == "–   T4"


def test_memory_and_links_are_told_as_far_as_they_are_known() -> None:
    linked = replace(
        GPU,
        memory_utilisation=0.41,
        pcie_received=2.1e9,
        pcie_sent=0.0,
        nvlinks=18,
        nvlinks_up=17,
        topology="NVLink with 1-3",
    )
    assert gpu_lines.running(linked).removeprefix(gpu_lines.running(GPU)).split("   ")[1:] == [
        "memory 41% busy", "PCIe 2.10 GB/s in, 0 B/s out", "17 of 18 NVLinks up", "NVLink with 1-3",
    ]  # fmt: skip
    assert "PCIe 2.10 GB/s in   17" in gpu_lines.running(replace(linked, pcie_sent=None))
    assert list(gpu_lines.alarms(replace(linked, nvlink_errors=0))) == []
    assert list(gpu_lines.alarms(replace(linked, nvlink_errors=1_203))) == [
        ("info", "1,203 replays, recoveries and CRC errors on NVLink")
    ]


def test_alarms_are_told_the_worst_first_and_once() -> None:
    ailing = replace(GPU, clock_event_reasons=0x40 | 0x08 | 0x04 | 0x01, ecc_errors=2, xid=79)
    assert list(gpu_lines.alarms(ailing)) == [
        ("critical", "slowed down by heat"),
        ("info", "at its power limit"),
        ("serious", "2 memory errors that could not be corrected (ECC)"),
        ("critical", "XID 79: it has fallen off the bus"),
    ]
    assert list(gpu_lines.alarms(replace(GPU, clock_event_reasons=0x01, ecc_errors=0))) == []
    assert list(gpu_lines.alarms(replace(GPU, xid=4711))) == [("critical", "XID 4711")]


def test_ranks_are_counted_over_all_tasks() -> None:
    shown = snapshot("a", "b", replicas=2, cards=2)
    assert placed(shown, 0) == "ranks 0 to 1 on GPUs 0, 1, over ib0 (the busiest)"
    assert placed(shown, 1) == "ranks 2 to 3 on GPUs 0, 1, over ib0 (the busiest)"


def test_a_rank_is_on_the_cpu_where_tensorflow_sees_no_accelerator() -> None:
    assert placed(on_cpu(snapshot("a", "b")), 1) == "rank 1 on the CPU, over ib0 (the busiest)"
    assert placed(on_cpu(snapshot("a")), 0) == "rank 0 on the CPU"


def test_what_cannot_be_known_of_a_place_is_not_claimed() -> None:
    assert placed(snapshot("a", "a"), 1) == "rank 1 on GPUs that its host shares with worker:0", "no network between"
    assert placed(snapshot("a", cards=0), 0) == "rank 0", "a host whose GPUs no driver tells of may have some"
    shown = snapshot("a", "b")
    before = shown.tasks[0]
    unheard = replace(shown, tasks=(replace(before, frame=None), shown.tasks[1]))
    assert placed(unheard, 1) is None, "how many ranks the first one has is not known"
