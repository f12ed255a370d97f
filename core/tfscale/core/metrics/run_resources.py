"""Energy and memory that a run has taken of its devices, from frames in their order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tfscale.core.cluster.task import Task
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import GpuSample
from tfscale.core.records.task_status import TaskState
from tfscale.core.text import data_size, energy_text, plural

_LATE = 30_000.0
"""Joules by which a sample may be behind another task's of the same GPU: 30 s of 1 kW. A counter that falls by more
began anew, with its driver."""
_OVER = (TaskState.EXITED, TaskState.LOST)


@dataclass(slots=True)
class RunResources:
    """Fold of the frames of all tasks. A GPU that several tasks share counts once."""

    _joules: dict[str, float] = field(default_factory=dict)
    """Joules since the first sample, by UUID."""
    _newest: dict[str, float] = field(default_factory=dict)
    """Newest value of each GPU's counter."""
    _silent: set[str] = field(default_factory=set)
    """GPUs that have no such counter."""
    _peaks: dict[str, int] = field(default_factory=dict)
    """Largest peak of TensorFlow's memory by device of a task: `worker:1 GPU:0`."""

    def note(self, task: Task, frame: Frame) -> None:
        """Take in a frame of a task; after its end its GPUs work for others."""
        for device, peak in ({} if frame.probe is None else frame.probe.peak_of_device).items():
            name = f"{task} {device}"
            self._peaks[name] = max(peak, self._peaks.get(name, 0))
        if frame.status.state not in _OVER:
            self._count(frame.gpus)

    def _count(self, gpus: Iterable[GpuSample]) -> None:
        for gpu in gpus:
            if gpu.energy is None:
                self._silent.add(gpu.uuid)
                continue
            before = self._newest.get(gpu.uuid, gpu.energy)
            if before - _LATE < gpu.energy < before:
                continue
            self._joules[gpu.uuid] = self._joules.get(gpu.uuid, 0.0) + max(0.0, gpu.energy - before)
            self._newest[gpu.uuid] = gpu.energy

    @property
    def joules(self) -> float | None:
        """Energy of all GPUs that count it since the first frame; None where none does."""
        return sum(self._joules.values()) if self._joules else None

    def facts(self) -> dict[str, str]:
        """Return what is known as text by name."""
        facts = {}
        silent = len(self._silent - self._joules.keys())
        if self.joules is not None:
            whose = f"by the counters of {plural(len(self._joules), 'GPU')}"
            rest = f"; {plural(silent, 'GPU')} without a counter and" if silent else ";"
            facts["energy"] = f"{energy_text(self.joules)} {whose}{rest} the rest of the hosts not counted"
        elif silent:
            facts["energy"] = f"not measured: no counter in {plural(silent, 'GPU')}"
        if self._peaks:
            name = max(self._peaks, key=self._peaks.__getitem__)
            facts["memory"] = f"at most {data_size(self._peaks[name])} on a GPU ({name}), by TensorFlow's own counter"
        return facts
