"""Tasks that train on their CPU beside the GPUs of their host, or on fewer GPUs than their peers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.probe_status import Devices, ProbeStatus
from tfscale.core.text import plural


def unused_gpus(tasks: Sequence[ObservedTask]) -> list[Diagnosis]:
    """Return a diagnosis for each task that leaves GPUs unused, which ends at the task's next start."""
    training = [(task, task.probe, task.probe.devices) for task in tasks if _trains(task) and task.probe]
    known = [(task, probe, devices) for task, probe, devices in training if devices is not None]
    usual = _usual([devices.gpus for _, _, devices in known])
    return [_of(task, why) for task, probe, devices in known if (why := _why(task, probe, devices, usual))]


def _trains(task: ObservedTask) -> bool:
    """Decide whether the task's own steps were measured; a coordinator's steps are its workers'."""
    return task.meets and task.running and task.progressed is not None and task.coordinator is None


def _usual(numbers: Sequence[int]) -> int:
    """Return the number of GPUs that most tasks use, the larger number where no number is most."""
    return max(Counter(numbers).items(), key=lambda item: (item[1], item[0]), default=(0, 0))[0]


def _why(task: ObservedTask, probe: ProbeStatus, devices: Devices, usual: int) -> str:
    if devices.gpus == 0 and task.gpus:
        return f"trains on its CPU: {_on_cpu(task.gpus, probe, devices)}"
    if devices.gpus >= usual:
        return ""
    uses = f"trains on {plural(devices.gpus, 'GPU')}" if devices.gpus else "trains on its CPU"
    why = f": {devices.why_no_gpu}" if devices.why_no_gpu and task.gpus else ""
    return f"{uses}, most of its peers on {plural(usual, 'GPU')} each{why}"


def _on_cpu(present: int, probe: ProbeStatus, devices: Devices) -> str:
    if devices.gpus_found:
        hidden = plural(devices.gpus_found, "GPU")
        return f"its script hides the {hidden} that TensorFlow has found (set_visible_devices)"
    version = ".".join((probe.tensorflow or "").split(".")[:2])
    found = f"TensorFlow {version}".strip() + f" found none of the host's {plural(present, 'GPU')}"
    return f"{found}: {devices.why_no_gpu or 'its log says why'}"


def _of(task: ObservedTask, why: str) -> Diagnosis:
    begin = task.status.started if task.status and task.status.started is not None else task.at or 0.0
    return Diagnosis("unused_gpus", task.name, begin, None, "serious", f"{task.name} {why}", evidence={})
