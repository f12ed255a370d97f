"""Energy and memory that a run has taken of its devices, from frames in their order."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tfscale.core.cluster.task import Task
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import Counters
from tfscale.core.text import data_size, energy_text, plural

_LATE = 30_000.0
"""Joules by which a sample may be behind another task's of the same GPU: 30 s of 1 kW. A counter that falls by more
began anew, with its driver."""
_PERIOD = 10.0
"""Seconds between two readings of the counters of a task's GPUs, which only grow: to read those of a thousand tasks
each second took a third of a watch's CPU. As much of a GPU's energy may be missed where its driver is loaded anew."""


@dataclass(frozen=True, slots=True)
class _GpuEnergy:
    """Fields of a `GpuSample`: to read all of them takes five times as long."""

    uuid: str
    energy: float | None


@dataclass(slots=True)
class RunResources:
    """Fold of the frames of all tasks. A GPU that several tasks share counts once."""

    _joules: dict[str, float] = field(default_factory=dict)
    """Joules since the first sample, by UUID."""
    _newest: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Newest value of each GPU's counter, and the time of its frame."""
    _silent: set[str] = field(default_factory=set)
    """GPUs that have no such counter."""
    _peaks: dict[str, int] = field(default_factory=dict)
    """Largest peak of TensorFlow's memory by device of a task: `worker:1 GPU:0`."""
    _seen: dict[Task, tuple[int, ...]] = field(default_factory=dict)
    """Newest peaks of each task, which seldom change."""
    _read: dict[Task, float] = field(default_factory=dict)
    """Time of the frame whose counters were read last, by task."""
    _unread: dict[Task, tuple[float, Counters]] = field(default_factory=dict)
    """Time of the newest frame and its counters, while they are not read."""

    def note(self, task: Task, frame: Frame) -> None:
        """Take in a frame of a task; after its end its GPUs work for others."""
        if frame.probe is not None and frame.probe.memory_peaks != self._seen.get(task, ()):
            self._seen[task] = frame.probe.memory_peaks
            for device, peak in frame.probe.peak_of_device.items():
                name = f"{task} {device}"
                self._peaks[name] = max(peak, self._peaks.get(name, 0))
        if frame.status.is_over:
            return
        self._unread[task] = frame.at, frame.counters
        if abs(frame.at - self._read.get(task, -math.inf)) >= _PERIOD:
            self._read[task] = frame.at
            self._count(*self._unread.pop(task))

    def _count(self, at: float, counters: Counters) -> None:
        for gpu in counters.gpus_as(_GpuEnergy):
            if gpu.energy is None:
                self._silent.add(gpu.uuid)
                continue
            before, then = self._newest.get(gpu.uuid, (gpu.energy, at))
            if gpu.energy < before and (at < then or before - _LATE < gpu.energy):
                continue
            self._joules[gpu.uuid] = self._joules.get(gpu.uuid, 0.0) + max(0.0, gpu.energy - before)
            self._newest[gpu.uuid] = gpu.energy, at

    @property
    def joules(self) -> float | None:
        """Energy of all GPUs that count it since the first frame; None where none does."""
        for at, counters in self._unread.values():
            self._count(at, counters)
        self._unread.clear()
        return sum(self._joules.values()) if self._joules else None

    def facts(self) -> dict[str, str]:
        """Return what is known as text by name."""
        facts, joules = {}, self.joules
        silent = len(self._silent - self._joules.keys())
        if joules is not None:
            whose = f"by the counters of {plural(len(self._joules), 'GPU')}"
            rest = f"; {plural(silent, 'GPU')} without a counter and" if silent else ";"
            facts["energy"] = f"{energy_text(joules)} {whose}{rest} the rest of the hosts not counted"
        elif silent:
            facts["energy"] = f"not measured: no counter in {plural(silent, 'GPU')}"
        if self._peaks:
            name = max(self._peaks, key=self._peaks.__getitem__)
            facts["memory"] = f"at most {data_size(self._peaks[name])} on a GPU ({name}), by TensorFlow's own counter"
        return facts
