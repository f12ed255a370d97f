"""A simulated cluster: arrivals and raw counters as agents of healthy and of faulty tasks would send them.

It knows no diagnosis: rules must find stragglers and their causes in its numbers.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from tfscale.console.analysis.steps.arrays import Floats
from tfscale.console.engine.events import AgentDescribed, Event, FrameArrived, LinkChanged, LinkState
from tfscale.console.sources.simulation.simulated_faults import HOT_CLOCK, STANDSTILLS, Fault
from tfscale.console.sources.simulation.simulated_log import SimulatedLog
from tfscale.console.sources.simulation.simulated_stack import stack_of
from tfscale.console.sources.simulation.simulated_steps import SimulatedSteps
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Task
from tfscale.core.records.frame import Description, Frame
from tfscale.core.records.host_sample import Disk, GpuSample, HostSample, Interface, Pressure, TaskUsage
from tfscale.core.records.probe_status import Collective, Devices, ProbeState, ProbeStatus
from tfscale.core.records.step_batch import PHASES, StepBatch
from tfscale.core.records.task_status import Exit, TaskState, TaskStatus
from tfscale.core.records.training import TRAINING_DISPLAYS, Gradients, LoggedNumber, Training

_ABORT_DELAY = 2.0
"""Seconds after a death until the peers, whose collective it aborts, have exited."""
_ABORTED = "UnavailableError: Collective ops is aborted by: Connection reset by peer"
"""Last line of the log of these peers, as TensorFlow words it."""
_CUT_NOTICED = 2.5
"""Seconds after which a cut connection is given up."""
_FRAMES_KEPT = 600
"""Frames that an agent keeps for a console that comes back."""
_BYTES = 7_450_000
_GPU_UTILISATION = 0.86
"""Utilisation of a GPU, idle while Python and the input are at work. A GPU that is never idle would be a finding."""
_CHECKPOINT_PERIOD = 60.0
"""Seconds from one checkpoint to the next."""
_INPUT_STEPS = 50
"""Steps over which a probe measures how long the input takes."""
_VARIABLES = 8
"""Variables of the model."""
_GIB = 1 << 30
_EPOCH = 1000
"""Steps of an epoch."""
_HW_SLOWDOWN, _HW_THERMAL = 0x08, 0x40


class SimulatedCluster:
    """Equal workers in synchronous training, some with faults."""

    def __init__(self, spec: ClusterSpec, faults: tuple[Fault, ...], rate: float, seed: int) -> None:
        self._spec = spec
        self._faults = faults
        self._steps = SimulatedSteps(len(spec.tasks), faults, rate, seed)
        # Agents know nothing of each other's seconds.
        self._phase = np.random.default_rng(seed).random(len(spec.tasks)).tolist()
        self._begin: float | None = None
        self._pids: dict[Task, int | None] = {}
        self.logs = {task: SimulatedLog(_EPOCH) for task in spec.tasks}

    def arrivals(self, begin: float) -> Iterator[Event]:
        """Yield the events for ever, in the order of their times, which begin at `begin`, Unix seconds."""
        cluster, self._begin = self._spec.to_json(), begin
        agents = [_Agent(self._spec, cluster, task, self._faults, self._steps, begin) for task in self._spec.tasks]
        agents.sort(key=lambda agent: self._phase[agent.task.index])
        second = 0
        while True:
            for agent in agents:
                for event in agent.events(second + self._phase[agent.task.index]):
                    if isinstance(event, FrameArrived):
                        self._pids[agent.task] = event.frame.status.pid
                        self.logs[agent.task].note(event.frame)
                    yield event
            second += 1

    def stack(self, task: Task, now: float) -> tuple[int | None, str]:
        """Return a task's process and its stacks at `now`, Unix seconds; None without a process, "" before it began."""
        if self._begin is None:
            return None, ""
        return self._pids.get(task), stack_of(task, self._faults, now - self._begin)


class _Agent:
    """One simulated agent, and the connection to it."""

    def __init__(
        self,
        spec: ClusterSpec,
        cluster: str,
        task: Task,
        faults: tuple[Fault, ...],
        steps: SimulatedSteps,
        begin: float,
    ) -> None:
        self.task = task
        self._spec, self._cluster = spec, cluster
        self._steps = steps
        self._begin = begin
        self._deaths = [fault for fault in faults if fault.kind == "kill"]
        self._hangs = [fault for fault in faults if fault.kind in STANDSTILLS]
        self._losses = [fault for fault in faults if fault.kind == "nan"]
        self._own = [fault for fault in faults if fault.task == task]
        self._sequence = 0
        self._reported_until = 0.0
        self._newest = (1, -1)
        self._gradients = Gradients()
        self._link: LinkState | None = None
        self._kept: list[Frame] = []

    def events(self, at: float) -> Iterator[Event]:
        """Yield the agent's events at `at`, seconds since the beginning."""
        now = self._begin + at
        self._kept = [*self._kept[1 - _FRAMES_KEPT :], self._frame(at)]
        if self._is_out_of_reach(at):
            if self._is_out_of_reach(at - _CUT_NOTICED) or self._link is None:
                yield from self._link_events(LinkState.DOWN, now, "does not answer")
            return
        if self._link is not LinkState.UP:
            yield from self._link_events(LinkState.UP, now)
            yield AgentDescribed(now, self.task, self._description())
        for frame in self._kept:
            yield FrameArrived(now, self.task, frame)
        self._kept = []

    def _link_events(self, state: LinkState, now: float, reason: str = "") -> Iterator[Event]:
        if state is not self._link:
            self._link = state
            yield LinkChanged(now, self.task, state, reason)

    def _is_out_of_reach(self, at: float) -> bool:
        return self._has_fault("cut", at) or self._has_fault("gone", at)

    def _has_fault(self, kind: str, at: float) -> bool:
        return any(fault.kind == kind and fault.holds(at) for fault in self._own)

    def _frame(self, at: float) -> Frame:
        self._steps.advance_to(at)
        batches = self._batches(at)
        status = self._status(at)
        runs = status.state is TaskState.RUNNING
        self._sequence += 1
        self._reported_until = at
        return Frame(
            sequence=self._sequence,
            at=self._begin + at,
            status=status,
            probe=self._probe(at) if runs else None,
            collective=self._collective(at) if runs else None,
            host=self._host(at, runs),
            gpus=(self._gpu(at, runs),),
            steps=batches,
            training=self._training(at) if runs else None,
        )

    def _batches(self, at: float) -> tuple[StepBatch, ...]:
        """Return the steps since the frame before, one batch a generation."""
        steps = self._steps
        low, high = np.searchsorted(steps.end, [self._reported_until, at], side="right")
        generations = steps.generation[low:high]
        edges = [0, *(np.flatnonzero(np.diff(generations)) + 1), high - low]
        return tuple(self._batch(low + begin, low + end) for begin, end in pairwise(edges) if end > begin)

    def _batch(self, low: int, high: int) -> StepBatch:
        steps, name = self._steps, str(self.task)
        sequence = array("Q", steps.sequence[low:high].tolist())
        self._newest = (int(steps.generation[low]), int(sequence[-1]))
        update, host, fetch, compute, reduce = (
            _floats("f", steps.phases[row, low:high, self.task.index]) for row in range(len(PHASES))
        )
        return StepBatch(
            generation=self._newest[0],
            attempt=1,
            reporter=name,
            subject=name,
            sequence=sequence,
            end=_floats("d", steps.end[low:high] + self._begin),
            global_step=sequence,
            update=update,
            host=host,
            input=fetch,
            compute=compute,
            reduce=reduce,
        )

    def _status(self, at: float) -> TaskStatus:
        generation, started = 1, 0.0
        for over in self._deaths:
            if over.end <= at:
                generation, started = generation + 1, over.end
        running = TaskStatus(TaskState.RUNNING, generation, 1, 4000 + self.task.index, self._begin + started)
        death = next((death for death in self._deaths if death.holds(at)), None)
        if death is None:
            return running
        if death.task == self.task:
            return replace(running, state=TaskState.EXITED, pid=None, exit=Exit(None, 9, self._begin + death.begin))
        ended = death.begin + _ABORT_DELAY
        if at < ended:
            return running
        end = Exit(1, None, self._begin + ended, log=(_ABORTED,))
        return replace(running, state=TaskState.EXITED, pid=None, exit=end)

    def _probe(self, at: float) -> ProbeStatus:
        count = len(self._spec.tasks)
        return ProbeStatus(
            ProbeState.MEASURING,
            strategy="MultiWorkerMirroredStrategy",
            replicas=count,
            local_replicas=1,
            ranks=count,
            reduced_bytes_per_step=_BYTES,
            examples_per_step=64 * count,
            tensorflow="2.21.0",
            keras="keras 3.15.1",
            collective="RING",
            checkpoint=self._begin + at // _CHECKPOINT_PERIOD * _CHECKPOINT_PERIOD,
            devices=Devices(gpus_found=1, gpus=1, tpus=0),
            input_python=self._input_seconds(at),
            compiled_stamps=True,
        )

    def _input_seconds(self, at: float) -> float | None:
        """Return the seconds of its input for each of the newest steps: the input has no store."""
        newest = int(np.searchsorted(self._steps.end, at, side="right"))
        seconds = self._steps.phases[PHASES.index("input"), max(0, newest - _INPUT_STEPS) : newest, self.task.index]
        return round(float(seconds.mean()), 3) if newest else None

    def _collective(self, at: float) -> Collective:
        newest = self._newest[1] + 1
        stuck = next((hang for hang in self._hangs if hang.holds(at)), None)
        inside = stuck is not None and stuck.task != self.task
        return Collective(newest + inside, newest, self._begin + stuck.begin if stuck and inside else None)

    def _host(self, at: float, runs: bool) -> HostSample:
        is_taken, is_stopped = self._has_fault("cpu", at), self._has_fault("stop", at)
        sent = _BYTES * 2.0 * self._steps_a_second() if runs else 300.0
        return HostSample(
            cpu=0.98 if is_taken else 0.35 if runs else 0.02,
            cores=16,
            load=31.0 if is_taken else 5.6 if runs else 0.1,
            memory_used=21 * _GIB,
            memory_total=64 * _GIB,
            swap_used=0,
            pressure=Pressure(0.62 if is_taken else 0.01, 0.0, 0.0),
            interfaces=(Interface("eth0", sent, sent, 10e9),),
            task=TaskUsage(1, 84, self._cores(at, is_taken), 3 * _GIB, int(is_stopped)) if runs else None,
            disk=Disk(612 * _GIB, 960 * _GIB, 48e6 if runs else 0.0, 2e6 if runs else 0.0),
        )

    def _cores(self, at: float, is_taken: bool) -> float:
        """Return the cores that the process uses; 0 while it is stopped or waits for good."""
        waits = any(fault.holds(at) for fault in self._hangs)
        return 0.0 if waits else 3.1 if is_taken else 5.2

    def _steps_a_second(self) -> float:
        ends = self._steps.end[-20:]
        return float((len(ends) - 1) / (ends[-1] - ends[0])) if len(ends) > 1 else 0.0

    def _gpu(self, at: float, runs: bool) -> GpuSample:
        hot = self._has_fault("thermal", at)
        return GpuSample(
            index=0,
            uuid=f"GPU-{self.task.index:08x}",
            name="NVIDIA A100-SXM4-40GB",
            utilisation=_GPU_UTILISATION if runs else 0.0,
            memory_used=33 * _GIB if runs else 0,
            memory_total=40 * _GIB,
            power=(210.0 if hot else 330.0) if runs else 52.0,
            power_limit=400.0,
            temperature=(91.0 if hot else 61.0) if runs else 33.0,
            clock=int(1.41e9 * (HOT_CLOCK if hot else 1.0)),
            clock_max=int(1.41e9),
            clock_event_reasons=_HW_SLOWDOWN | _HW_THERMAL if hot else 0,
            memory_utilisation=0.41 if runs else 0.0,
            pcie_received=2.1e9 if runs else 0.0,
            pcie_sent=310e6 if runs else 0.0,
            nvlinks=12,
            nvlinks_up=12,
            nvlink_errors=0,
        )

    def _training(self, at: float) -> Training:
        step = max(self._newest[1], 0)
        self._fold_gradients(at)
        finite = not self._gradients.steps
        # Numbers without a rule below fall as the loss does, so that a new one is seen without another edit.
        falling: dict[str, Any] = dict.fromkeys(TRAINING_DISPLAYS, 2.3 / (1 + step / 400) if finite else None)
        known: dict[str, Any] = {**falling, "epoch": step // _EPOCH, "learning_rate": 0.001}
        logs = _logs(step) if finite else ()
        return Training(**known, global_step=step, finite=finite, gradients=self._gradients, logs=logs)

    def _fold_gradients(self, at: float) -> None:
        """Compute whether the gradients are finite: the faulty worker's are not, and a step later nobody's."""
        fault = min((each for each in self._losses if each.holds(at)), key=lambda each: each.begin, default=None)
        if fault is None:
            self._gradients = Gradients()
            return
        steps, lost = self._steps, self._gradients
        first = int(np.searchsorted(steps.end, fault.begin)) + (fault.task != self.task)
        if not lost.steps and first < len(steps.end) and steps.end[first] <= at:
            since, sequence = self._begin + float(steps.end[first]), int(steps.sequence[first])
            lost = Gradients(
                steps=1,
                since=since,
                sequence=sequence,
                global_step=sequence,
                replicas=(0,),
                variables=_VARIABLES,
                checked=_VARIABLES,
                first="dense/kernel",
            )
        if lost.sequence is not None:
            self._gradients = replace(lost, steps=self._newest[1] - lost.sequence + 1)

    def _description(self) -> Description:
        return Description(
            version="simulated",
            run=self._spec.name,
            task=str(self.task),
            lead=str(self._spec.lead),
            host=f"node-{self.task.index:04}",
            cluster=self._cluster,
            command=("python", "train.py"),
            log_path="",
            generation=1,
            started=self._begin,
            pid=3000 + self.task.index,
            directory="/home/user",
        )


def _logs(step: int) -> tuple[LoggedNumber, ...]:
    """Return the metrics at a step; those of a validation from the end of the first epoch on."""
    ended, last = step // _EPOCH - 1, step // _EPOCH * _EPOCH
    logs = (LoggedNumber("accuracy", 1 - 0.9 / (1 + step / 400)),)
    if ended < 0:
        return logs
    validated = {"val_loss": 0.1 + 2.3 / (1 + last / 400), "val_accuracy": 0.95 - 0.9 / (1 + last / 400)}
    return (*logs, *(LoggedNumber(name, value, ended) for name, value in validated.items()))


def _floats(kind: str, values: Floats) -> array[float]:
    column: array[float] = array("f" if kind == "f" else "d")
    column.frombytes(values.astype(np.dtype(kind), copy=False).tobytes())
    return column
