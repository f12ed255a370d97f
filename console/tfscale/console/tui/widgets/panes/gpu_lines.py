"""GPUs of a task: load and clocks, slowdowns, errors, and the replicas placed on them."""

from __future__ import annotations

from collections.abc import Iterator

from tfscale.console.engine.model import Snapshot, TaskView
from tfscale.core.cluster.task import Role
from tfscale.core.records.host_sample import GpuSample
from tfscale.core.records.probe_status import ProbeStatus
from tfscale.core.text import count, data_rate, data_size, listing, percent

REASONS = {
    0x0040: ("critical", "slowed down by heat"),
    0x0020: ("serious", "its clock is lowered because of heat"),
    0x0080: ("critical", "slowed down by the power supply"),
    0x0008: ("serious", "slowed down by its hardware"),
    0x0004: ("info", "at its power limit"),
    0x0010: ("info", "waits for the clocks of others (sync boost)"),
    0x0002: ("info", "its clock is set by hand"),
    0x0100: ("info", "its clock is set for the display"),
}
"""Severity and meaning of NVML's clock-event reasons except idleness, the worst first."""
_MEANT_TOO = {0x0040: 0x0008, 0x0080: 0x0008}
"""Reasons that another reason implies, so that both are not shown."""

XIDS = {
    13: "the program's kernel failed",
    31: "the program touched memory that is not its own",
    43: "the program's work was stopped after an error",
    45: "the program's work was cleaned up",
    48: "a memory error that cannot be corrected",
    63: "a row of memory was replaced",
    64: "a row of memory could not be replaced",
    74: "an error on NVLink",
    79: "it has fallen off the bus",
    92: "many corrected memory errors",
    94: "a memory error, contained to the program",
    95: "a memory error, not contained",
    119: "its system processor does not answer",
}
"""Meaning of errors in NVIDIA's XID list; other errors are shown by number."""

Alarm = tuple[str, str]
"""Severity and text."""


def running(gpu: GpuSample) -> str:
    """Describe load, memory, power, temperature, clock and links in one line."""
    memory = "" if gpu.memory_used is None else f"{data_size(gpu.memory_used)} of {data_size(gpu.memory_total)}"
    facts = [
        percent(gpu.utilisation),
        memory,
        _of(gpu.clock, gpu.clock_max, 1e6, "MHz"),
        _of(gpu.power, gpu.power_limit, 1.0, "W"),
        "" if gpu.temperature is None else f"{gpu.temperature:.0f} °C",
        gpu.name.removeprefix("NVIDIA "),
        "" if gpu.memory_utilisation is None else f"memory {percent(gpu.memory_utilisation)} busy",
        *_links(gpu),
    ]
    return "   ".join(filter(None, facts))


def _links(gpu: GpuSample) -> Iterator[str]:
    directions = ((gpu.pcie_received, "in"), (gpu.pcie_sent, "out"))
    pcie = ", ".join(f"{data_rate(rate)} {way}" for rate, way in directions if rate is not None)
    if pcie:
        yield f"PCIe {pcie}"
    if gpu.nvlinks_up is not None:
        yield f"{gpu.nvlinks_up} of {gpu.nvlinks} NVLinks up"
    yield gpu.topology


def _of(value: float | None, limit: float | None, unit: float, name: str) -> str:
    if value is None:
        return ""
    return f"{value / unit:.0f} {name}" if limit is None else f"{value / unit:.0f} of {limit / unit:.0f} {name}"


def alarms(gpu: GpuSample) -> Iterator[Alarm]:
    """Return the reasons for a slower clock, and the errors."""
    reasons = gpu.clock_event_reasons or 0
    for reason, implied in _MEANT_TOO.items():
        if reasons & reason:
            reasons &= ~implied
    yield from (REASONS[reason] for reason in REASONS if reasons & reason)
    if gpu.ecc_errors:
        yield "serious", f"{count(gpu.ecc_errors)} memory errors that could not be corrected (ECC)"
    if gpu.nvlink_errors:
        yield "info", f"{count(gpu.nvlink_errors)} replays, recoveries and CRC errors on NVLink"
    if gpu.xid is not None:
        meaning = f": {XIDS[gpu.xid]}" if gpu.xid in XIDS else ""
        yield "critical", f"XID {gpu.xid}{meaning}"


def peak_memory(probe: ProbeStatus) -> str:
    """Return the most memory that TensorFlow has held on each device; empty where it is not measured."""
    told = ", ".join(f"{data_size(peak)} on {device}" for device, peak in probe.peak_of_device.items())
    return f"at most {told}, by TensorFlow's own counter" if told else ""


def step_flops(probe: ProbeStatus, seconds: float | None, peak: float | None) -> str:
    """Return the floating-point operations of a step of so many seconds, those of a second, and their share of a peak.

    `peak` is in FLOP/s, of one device. Empty where the operations are not known.
    """
    if probe.flops_per_step is None:
        return ""
    told, mfu = f"at least {data_size(probe.flops_per_step, 'FLOP')} a step", probe.mfu(seconds, peak)
    told += f", {data_size(probe.flops_per_step / seconds, 'FLOP/s')}" if seconds else ""
    if mfu is not None:
        share = f"{mfu:.0%}" if mfu >= 0.0995 else f"{mfu * 100:.2g}%"
        told += f", MFU {share} of {data_size(peak, 'FLOP/s')} x {probe.local_replicas or 1}"
    told += ", by TensorFlow's counts"
    told += "; the peak in the cluster file is too low" if mfu is not None and mfu > 1 else ""
    return told + (f"; not counted: {listing(probe.flops_uncounted)}" if probe.flops_uncounted else "")


def placement(view: TaskView, snapshot: Snapshot) -> str | None:
    """Return the task's ranks in the all-reduce, their GPUs and the network interface in words.

    None if the task has no ranks or they are unknown.
    """
    first, replicas = 0, None
    for other in snapshot.tasks:
        probe = other.frame.probe if other.frame else None
        if other.task.role not in (Role.CHIEF, Role.WORKER):
            continue
        if probe is None or probe.local_replicas is None or not probe.ranks:
            return None
        if other.task == view.task:
            replicas = probe.local_replicas
            break
        first += probe.local_replicas
    if replicas is None or view.frame is None:
        return None
    ranks = f"rank {first}" if replicas == 1 else f"ranks {first} to {first + replicas - 1}"
    return ranks + _on_devices(view, snapshot, replicas) + _over(view, snapshot)


def _on_devices(view: TaskView, snapshot: Snapshot, replicas: int) -> str:
    devices = view.frame.probe.devices if view.frame and view.frame.probe else None
    if devices and devices.gpus == devices.tpus == 0:
        return " on the CPU"
    gpus = view.frame.gpus if view.frame else ()
    if not gpus:
        return ""
    sharing = [str(other.task) for other in snapshot.tasks if other.host == view.host and other.task != view.task]
    if sharing:
        return f" on GPUs that its host shares with {', '.join(sharing[:3])}"
    if replicas > len(gpus):
        return f" on {len(gpus)} GPUs"
    # TensorFlow places replicas on the GPUs in their order, unless a script chooses others.
    names = [str(gpu.index) for gpu in gpus[:replicas]]
    return f" on GPU {names[0]}" if replicas == 1 else f" on GPUs {', '.join(names)}"


def _over(view: TaskView, snapshot: Snapshot) -> str:
    """Return the host's interface with the most traffic in words, if tasks on other hosts train with this task."""
    host = view.frame.host if view.frame else None
    if all(other.host == view.host for other in snapshot.tasks):
        return ""
    links = [interface for interface in host.interfaces if interface.name != "lo"] if host else []
    if not links:
        return ""
    busiest = max(links, key=lambda interface: interface.sent + interface.received)
    return f", over {busiest.name} (the busiest)" if len(links) > 1 else f", over {busiest.name}"
