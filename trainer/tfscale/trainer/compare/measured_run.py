"""Measurement of one run, read from the files that its processes have written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from tfscale.core.cluster.restart import governing
from tfscale.core.cluster.strategy import DEFAULT
from tfscale.core.comparison.judgement import mean_step, quick_step
from tfscale.core.comparison.step_times import FEWEST_STEPS, is_apart, settled, step_times
from tfscale.core.records.probe_status import ProbeState, ProbeStatus
from tfscale.core.records.step_batch import PHASES
from tfscale.core.text import data_size, duration, step_time

MOST_LOSSES = 500
_FACTS = {
    "strategy": "strategy",
    "replicas": "replicas",
    "examples a step": "examples_per_step",
    "TensorFlow": "tensorflow",
    "Keras": "keras",
    "dtype policy": "dtype_policy",
    "reduced as": "wire_type",
}
"""Fields of the probe's status that tell a fact of the gate's contract, by its name there."""
NEAR = 0.1
"""Distance of two losses, as a share of the examples until then, between which one is read."""


SAME = 0.025
"""Distance of a loss, as a share of the examples, at which it is read as it is: the last batch of an epoch may be a
part, so that epochs of equal examples end up to a batch apart."""


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run of a setting. Times are in seconds; None is unknown."""

    setting: str
    round: int
    reason: str = ""
    """Reason for which it was not measured."""
    is_out_of_memory: bool = False
    """True where a task says that memory was short, or was killed by SIGKILL, as the kernel does then."""
    steps: int = 0
    step: float | None = None
    """Mean time from step to step after the first tenth, without compilation, evaluation and checkpoints; of all
    workers together where they do not wait for each other."""
    quick: float | None = None
    """Quick step: a twentieth of the steps are quicker."""
    phases: Mapping[str, float] = field(default_factory=dict)
    workers: Mapping[str, float] = field(default_factory=dict)
    """Mean step by task."""
    examples: int | None = None
    """Examples of a step."""
    reduced: int | None = None
    """Bytes that a replica gives to the collectives of a step's gradients, as they were traced."""
    gathered: int | None = None
    """Part of these that is all-gathered."""
    is_joined: bool | None = None
    """True where a strategy joins its replicas with those of other tasks."""
    devices: int = 1
    """Replicas of all tasks, each on a device of its own."""
    has_own_cores: bool | None = None
    """True where no two of its tasks had a core in common; None where they were not bound to cores."""
    began: float | None = None
    """Moment of its begin, in Unix seconds."""
    load: float | None = None
    """Processes that ran or waited for a core at its begin, the mean of a minute."""
    machine: str = ""
    """Hardware and system on which it ran, in words."""
    software: Mapping[str, str] = field(default_factory=dict)
    """Versions, strategy and collective, as far as they are known."""
    memory: int | None = None
    """Most resident bytes of the process that needs most."""
    device_memory: int | None = None
    """Most bytes that TensorFlow has held at once on one device; None where it counts none, as on a CPU."""
    wall: float = 0.0
    """From the start of the agents to the end."""
    start: float | None = None
    """From the start of the agents to the end of the first step: imports, tracing and compilation."""
    losses: Sequence[tuple[int, float]] = ()
    """Steps made, and the loss then."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts by which the gate knows whether runs are comparable, by their names there."""
    moments: Sequence[float] = ()
    """Seconds from the start of the agents at which each loss was known."""

    def per_example(self, step: float | None) -> float | None:
        """Return the time of one example, of a step where the examples are not known."""
        return None if step is None else step / (self.examples or 1)

    @property
    def examples_per_second(self) -> float | None:
        return self.examples / self.step if self.examples and self.step else None

    def in_words(self, *, has_memory: bool = False) -> str:
        """Return how long a step and the run took, or the reason why nothing was measured."""
        rate = f"{self.examples_per_second:,.0f} examples/s" if self.examples_per_second else ""
        memory = memory_words(self.memory, self.device_memory) if has_memory else ""
        words = [f"{step_time(self.step)} a step", rate, memory, duration(self.wall)]
        return self.reason or ", ".join(filter(None, words))


def memory_words(resident: int | None, device: int | None) -> str:
    """Return TensorFlow's own peak on a device, that of the process where it counts none: `31.3 GB GPU`, `728 MB RSS`.

    Empty where neither is known.
    """
    return f"{data_size(device)} GPU" if device else f"{data_size(resident)} RSS" if resident else ""


_SOFTWARE = ("tensorflow", "keras", "strategy", "collective", "dtype_policy", "wire_type")
"""Facts of the probe's status that a reader of the numbers asks for."""


class StepFiles:
    """Files of the processes of one run, read as they grow."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self._frames: dict[Path, list[dict[str, Any]]] = {}
        self._made: Counter[str] = Counter()
        """Steps by task: how many there are is asked for ten times a second, on cores that train."""

    def follow(self) -> None:
        """Read all complete lines that are new."""
        for path in self._folder.glob("*.jsonl"):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                complete, end, _ = file.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(complete + end)
            fresh = [frame for line in complete.splitlines() if (frame := json.loads(line))["type"] == "frame"]
            self._frames.setdefault(path, []).extend(fresh)
            for batch in _of_tasks(fresh):
                self._made[batch["subject"]] += len(batch["end"])

    @property
    def pids(self) -> set[int]:
        return {frames[-1]["status"]["pid"] for frames in self._frames.values() if frames}

    @property
    def most_steps(self) -> int:
        return max(self._made.values(), default=0)

    @property
    def device_memory(self) -> int | None:
        """Most bytes that TensorFlow has held at once on a device of any process; None where it counts none."""
        told = [frame["probe"] or {} for frames in self._frames.values() for frame in frames]
        return max((peak for each in told for peak in each.get("memory_peaks") or ()), default=None)

    def measured(self, run: MeasuredRun, began: float, logged: Sequence[tuple[int, float]]) -> MeasuredRun:
        """Return the run with its measurement.

        Args:
            run: what is known of it already.
            began: moment of its begin, in Unix seconds.
            logged: step and loss where the program itself has told them; otherwise those that Keras has shown.
        """
        ends = {task: column for task, column in self.columns("end").items() if len(column) >= FEWEST_STEPS}
        status = self.newest("probe") or {}
        if not ends:
            said = status.get("message") or f"{self.most_steps} steps were measured, at least {FEWEST_STEPS} are needed"
            return replace(run, reason=said)
        phases = {phase: self.columns(phase) for phase in PHASES}
        times = {task: self.times(task) for task in ends}
        workers = {task: mean_step(each) for task, each in times.items()}
        lead = next(iter(sorted(workers)))
        is_async = "ParameterServer" in (status.get("strategy") or "")
        share = sum(1 / each for each in workers.values()) * workers[lead] if is_async else 1.0
        known = [(step, loss, ends[lead][step - 1] - began) for step, loss in logged if step <= len(ends[lead])]
        known = known or [(made, loss, at - began) for made, loss, at in self._trained()]
        thinned = known[:: -(-len(known) // MOST_LOSSES)] if known else []
        return replace(
            run,
            steps=sum(map(len, ends.values())) if is_async else len(ends[lead]),
            step=workers[lead] / share,
            quick=quick_step(times[lead]) / share,
            phases={phase: fmean(column) for phase in PHASES if (column := _settled(phases[phase].get(lead, ())))},
            workers=workers,
            examples=status.get("examples_per_step"),
            reduced=status.get("reduced_bytes_per_step"),
            gathered=status.get("gathered_bytes_per_step"),
            software={name: str(status[name]) for name in _SOFTWARE if status.get(name)},
            is_joined=_is_joined(status),
            devices=max(status.get("replicas") or 1, len(workers)),
            start=min(column[0] for column in ends.values()) - began,
            losses=[(step, loss) for step, loss, _ in thinned],
            moments=[at for _, _, at in thinned],
            facts={name: str(status[field]) for name, field in _FACTS.items() if status.get(field)},
        )

    def columns(self, name: str) -> dict[str, list[Any]]:
        """Return a column of all steps by task."""
        found: dict[str, list[Any]] = {}
        for batch in (batch for frames in self._frames.values() for batch in _of_tasks(frames)):
            found.setdefault(batch["subject"], []).extend(batch[name])
        return found

    def times(self, task: str) -> list[float]:
        """Return the time of each settled step of a task, process by process."""
        found: list[float] = []
        for frames in self._frames.values():
            batches = [batch for frame in frames for batch in frame["steps"] if batch["subject"] == task]
            ends = [end for batch in batches for end in batch["end"]]
            activities = [each for frame in frames for each in frame["activities"]]
            apart = [
                (each["begin"], each["end"])
                for each in activities
                if each["end"] is not None and is_apart(each["kind"])
            ]
            found += step_times(ends, apart).tolist()
        return settled(np.array(found)).tolist()  # type: ignore[no-any-return]

    def newest(self, name: str) -> Any:
        """Return the newest of such parts of frames, as JSON has it; None where no frame has one."""
        known = [frame[name] for frames in self._frames.values() for frame in frames if frame[name]]
        return known[-1] if known else None

    def _trained(self) -> list[tuple[int, float, float]]:
        """Return the losses of the first process that has any: steps made, loss, Unix time at which it was told."""
        for _, frames in sorted(self._frames.items()):
            made, found = 0, []
            for frame in frames:
                made += max((len(batch["end"]) for batch in frame["steps"]), default=0)
                if made and frame["training"] and frame["training"]["loss"] is not None:
                    found.append((made, frame["training"]["loss"], frame["time"]))
            if found:
                return found
        return []


def _of_tasks(frames: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the batches of steps of whole tasks, without those of their replicas or stages."""
    return (batch for frame in frames for batch in frame["steps"] if "/" not in batch["subject"])


def _is_joined(status: Mapping[str, Any]) -> bool | None:
    """Decide whether a strategy joins a task whose steps were measured with other tasks; None if it is not known."""
    told = ProbeStatus(
        ProbeState.MEASURING,
        strategy=status.get("strategy"),
        replicas=status.get("replicas"),
        local_replicas=status.get("local_replicas"),
    )
    return None if (name := governing(told)) is None else name != DEFAULT.name


def _settled(column: Sequence[float | None]) -> list[float]:
    return [value for value in settled(column) if value is not None]


def loss_at(run: MeasuredRun, examples: float) -> float | None:
    """Return the loss after so many examples, between the two that are known beside it.

    Keras's loss is told once a second: in a training of seconds it says nothing about the moments between. Where the
    two are far apart it is that of one of them which is very near, as at the end of an epoch; None without one.
    """
    known = [(made * (run.examples or 1), loss) for made, loss in run.losses]
    if not known or known[-1][0] < examples:
        return None
    after = next(place for place, (made, _) in enumerate(known) if made >= examples)
    (before, low), (until, high) = known[max(0, after - 1)], known[after]
    if after == 0 or until - before > NEAR * examples:
        distance, loss = min((examples - before, low), (until - examples, high), key=lambda each: abs(each[0]))
        return loss if abs(distance) <= SAME * examples else None
    return low + (high - low) * (examples - before) / (until - before)


def seconds_to(run: MeasuredRun, loss: float) -> float | None:
    """Return the time from the start to the first loss that is not above this one; None where there is none."""
    return next((at for at, (_, value) in zip(run.moments, run.losses, strict=True) if value <= loss), None)


def from_json(text: str) -> MeasuredRun:
    """Return a run from its line. Raises ValueError, TypeError or KeyError for any other text."""
    document = json.loads(text)
    return MeasuredRun(**document | {"losses": [(step, loss) for step, loss in document["losses"]]})
