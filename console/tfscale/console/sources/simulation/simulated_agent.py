"""Simulated agent of one task: its connection, and the frames that it would send.

It knows no diagnosis: rules must find stragglers and their causes in its numbers.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tfscale.console.analysis.steps.arrays import Floats
from tfscale.console.engine.events import AgentDescribed, Event, FrameArrived, LinkChanged, LinkState
from tfscale.console.sources.simulation.simulated_course import Course
from tfscale.console.sources.simulation.simulated_faults import Fault
from tfscale.console.sources.simulation.simulated_host import BYTES, SimulatedHost
from tfscale.console.sources.simulation.simulated_servers import SimulatedChief
from tfscale.console.sources.simulation.simulated_steps import SimulatedSteps
from tfscale.core.cluster.task import Role, Task
from tfscale.core.records.frame import Description, Frame
from tfscale.core.records.probe_status import Collective, Devices, ProbeState, ProbeStatus
from tfscale.core.records.step_batch import PHASES, Coordinator, StepBatch
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
_CHECKPOINT_PERIOD = 60.0
"""Seconds from one checkpoint to the next."""
_INPUT_STEPS = 50
"""Steps over which a probe measures how long the input takes."""
_VARIABLES = 8
"""Variables of the model."""
EPOCH = 1000
"""Steps of an epoch."""
_PIECES = 8
"""Micro-batches in which a batch goes through the stages of a pipeline."""


class SimulatedAgent:
    """Agent of one task, and the connection to it."""

    def __init__(
        self, course: Course, task: Task, steps: Mapping[Task, SimulatedSteps], begin: float, cluster: str, stages: int
    ) -> None:
        """Make the agent.

        Args:
            course: what befalls the cluster.
            task: its task.
            steps: steps of each worker whose steps it reports: its own, or those of all workers of a chief.
            begin: begin of the simulation, Unix seconds.
            cluster: the cluster file as JSON.
            stages: stages of the pipeline in each worker; 0: the model is in one piece.
        """
        self.task = task
        self._course, self._spec, self._cluster, self._stages = course, course.spec, cluster, stages
        self._steps = dict(steps)
        self._host = SimulatedHost(course, task, next(iter(steps.values())).rate)
        self._chief = SimulatedChief(course, self._steps) if task.role is Role.CHIEF else None
        self._begin = begin
        self._sequence = 0
        self._reported_until = 0.0
        self._newest = (1, -1)
        self._gradients = Gradients()
        self._link: LinkState | None = None
        self._told = course.placement.order
        self._seat = course.placement.seats[task]
        self._kept: list[Frame] = []

    def events(self, at: float) -> Iterator[Event]:
        """Yield the agent's events at `at`, seconds since the beginning."""
        now = self._begin + at
        self._kept = [*self._kept[1 - _FRAMES_KEPT :], self._frame(at)]
        if self._course.is_out_of_reach(self.task, at):
            if self._course.is_out_of_reach(self.task, at - _CUT_NOTICED) or self._link is None:
                yield from self._link_events(LinkState.DOWN, now, "does not answer")
            return
        placement, seat = self._course.placement, self._course.placement.seats[self.task]
        if seat != self._seat:
            # What the agent on the lost host has kept is lost with it.
            self._seat, self._kept = seat, self._kept[-1:]
        if self._link is not LinkState.UP or placement.order != self._told:
            self._told = placement.order
            yield from self._link_events(LinkState.UP, now)
            yield AgentDescribed(now, self.task, self._description())
        for frame in self._kept:
            yield FrameArrived(now, self.task, frame)
        self._kept = []

    def _link_events(self, state: LinkState, now: float, reason: str = "") -> Iterator[Event]:
        if state is not self._link:
            self._link = state
            yield LinkChanged(now, self.task, state, reason)

    def _frame(self, at: float) -> Frame:
        for steps in self._steps.values():
            steps.advance_to(at)
        batches = self._batches(at)
        status = self._status(at)
        runs = status.state is TaskState.RUNNING
        trains = runs and (self.task.role is Role.CHIEF or not self._course.servers)
        self._sequence += 1
        self._reported_until = at
        return Frame(
            sequence=self._sequence,
            at=self._begin + at,
            status=status,
            probe=self._probe(at) if runs else None,
            collective=self._collective(at) if trains and not self._course.servers else None,
            host=self._host.sample(at, self._begin, self._pace(), runs=runs),
            gpus=(self._host.gpu(at, runs=runs),) if self.task.role is Role.WORKER else (),
            steps=batches,
            training=self._training(at) if trains else None,
            coordinator=self._report(at) if runs and self._chief else None,
        )

    def _report(self, at: float) -> Coordinator | None:
        started = self._course.start_of(self.task, at)[1]
        return self._chief.report(at, started, self._begin) if self._chief else None

    def _batches(self, at: float) -> tuple[StepBatch, ...]:
        """Return the steps since the frame before, of each worker one batch a generation."""
        if self._course.servers and self._chief is None:
            return ()
        found: list[StepBatch] = []
        for worker, steps in self._steps.items():
            low, high = np.searchsorted(steps.end, [self._reported_until, at], side="right")
            generations = steps.generation[low:high]
            edges = [0, *(np.flatnonzero(np.diff(generations)) + 1), high - low]
            for begin, end in pairwise(edges):
                if end > begin:
                    rows = slice(low + begin, low + end)
                    found.append(self._batch(worker, steps, rows))
                    found += self._stage_batches(found[-1], steps.phases_of(worker, rows))
        return tuple(found)

    def _batch(self, worker: Task, steps: SimulatedSteps, rows: slice) -> StepBatch:
        sequence = array("Q", steps.sequence[rows].tolist())
        generation = int(steps.generation[rows.start])
        self._newest = (generation, int(sequence[-1]))
        update, host, fetch, compute, reduce = steps.phases_of(worker, rows)
        pull = reduce if self._chief else None
        return StepBatch(
            generation=generation,
            attempt=1,
            reporter=str(self.task),
            subject=str(worker),
            sequence=sequence,
            end=_floats("d", steps.end[rows] + self._begin),
            global_step=sequence,
            update=_floats("f", update),
            host=_floats("f", host),
            input=_floats("f", fetch),
            compute=_floats("f", compute if pull is None else compute + pull),
            reduce=_floats("f", reduce if pull is None else np.zeros_like(reduce)),
            pull=array("f") if pull is None else _floats("f", pull),
        )

    def _stage_batches(self, whole: StepBatch, phases: NDArray[np.float32]) -> Iterator[StepBatch]:
        """Yield the stages' parts of a worker's steps: equal work, and the bubble of a pipeline without interleaving.

        With p stages and m micro-batches a stage waits (p - 1) / (m + p - 1) of the time (Huang et al., GPipe, 2019).
        """
        compute = phases[PHASES.index("compute")]
        waits = (self._stages - 1) / (_PIECES + self._stages - 1) if self._stages else 0.0
        for stage in range(self._stages):
            yield StepBatch(
                generation=whole.generation,
                attempt=1,
                reporter=whole.reporter,
                subject=f"{whole.subject}/stage:{stage}",
                sequence=whole.sequence,
                end=whole.end,
                global_step=whole.global_step,
                input=_floats("f", compute * waits),
                compute=_floats("f", compute * (1 - waits)),
            )

    def _status(self, at: float) -> TaskStatus:
        course = self._course
        generation, started = course.start_of(self.task, at)
        pid = 4000 + self._host.place
        status = TaskStatus(TaskState.RUNNING, generation, 1, pid, self._begin + started)
        if (death := course.death_before(self.task, at)) is not None:
            return self._after(death, status, at)
        if (restart := course.restart_of(self.task, at)) is None:
            return status
        if at < restart.started:
            return replace(status, state=TaskState.STOPPING, reason=restart.reason)
        return replace(status, state=TaskState.STARTING, reason=restart.reason)

    def _after(self, death: Fault, status: TaskStatus, at: float) -> TaskStatus:
        """Return the status after a death: of the dead task, or of one whose collective it has aborted."""
        if death.task == self.task:
            end = Exit(None, 9, self._begin + death.begin)
        elif at < death.begin + _ABORT_DELAY:
            return status
        else:
            end = Exit(1, None, self._begin + death.begin + _ABORT_DELAY, log=(_ABORTED,))
        return replace(status, state=TaskState.EXITED, pid=None, exit=end)

    def _probe(self, at: float) -> ProbeStatus:
        if self._course.servers and self._chief is None:
            return ProbeStatus(ProbeState.WAITING, tensorflow="2.21.0")
        count = len(self._course.workers)
        joined = not self._course.servers
        return ProbeStatus(
            ProbeState.MEASURING,
            strategy=self._course.strategy,
            replicas=count if joined else 1,
            local_replicas=1,
            ranks=count if joined else None,
            reduced_bytes_per_step=BYTES if joined else None,
            examples_per_step=64 * count if joined else 64,
            micro_batches=_PIECES if self._stages else None,
            tensorflow="2.21.0",
            keras="keras 3.15.1",
            collective="RING" if joined else None,
            checkpoint=self._begin + at // _CHECKPOINT_PERIOD * _CHECKPOINT_PERIOD,
            devices=Devices(gpus_found=1, gpus=1, tpus=0) if joined else None,
            input_python=self._input_seconds(at) if joined else None,
            compiled_stamps=True,
        )

    def _input_seconds(self, at: float) -> float | None:
        """Return the seconds of its input for each of the newest steps: the input has no store."""
        steps = self._steps[self.task]
        newest = int(np.searchsorted(steps.end, at, side="right"))
        phases = steps.phases_of(self.task, slice(max(0, newest - _INPUT_STEPS), newest))
        return round(float(phases[PHASES.index("input")].mean()), 3) if newest else None

    def _collective(self, at: float) -> Collective:
        newest = self._newest[1] + 1
        stuck = self._course.standing(self.task, at)
        inside = stuck is not None and stuck.task != self.task
        return Collective(newest + inside, newest, self._begin + stuck.begin if stuck and inside else None)

    def _pace(self) -> float:
        """Return the steps a second of its own worker; of a server, of one of the workers."""
        ends = self._steps.get(self.task, next(iter(self._steps.values()))).end[-20:]
        return float((len(ends) - 1) / (ends[-1] - ends[0])) if len(ends) > 1 else 0.0

    def _training(self, at: float) -> Training:
        step = max(self._newest[1], 0)
        self._fold_gradients(at)
        finite = not self._gradients.steps
        # Numbers without a rule below fall as the loss does, so that a new one is seen without another edit.
        falling: dict[str, Any] = dict.fromkeys(TRAINING_DISPLAYS, 2.3 / (1 + step / 400) if finite else None)
        known: dict[str, Any] = {**falling, "epoch": step // EPOCH, "learning_rate": 0.001}
        logs = _logs(step) if finite else ()
        return Training(**known, global_step=step, finite=finite, gradients=self._gradients, logs=logs)

    def _fold_gradients(self, at: float) -> None:
        """Compute whether the gradients are finite: the faulty worker's are not, and a step later nobody's."""
        losses = (each for each in self._course.faults if each.kind == "nan" and each.holds(at))
        fault = min(losses, key=lambda each: each.begin, default=None)
        if fault is None:
            self._gradients = Gradients()
            return
        steps, lost = next(iter(self._steps.values())), self._gradients
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
            host=self._course.host_names[self._seat],
            cluster=self._cluster,
            command=("python", "train.py"),
            log_path="",
            generation=1,
            started=self._begin,
            pid=3000 + self._host.place,
            directory="/home/user",
            placement=self._course.placement.to_json() if self._course.placement.generation else "",
        )


def _logs(step: int) -> tuple[LoggedNumber, ...]:
    """Return the metrics at a step; those of a validation from the end of the first epoch on."""
    ended, last = step // EPOCH - 1, step // EPOCH * EPOCH
    logs = (LoggedNumber("accuracy", 1 - 0.9 / (1 + step / 400)),)
    if ended < 0:
        return logs
    validated = {"val_loss": 0.1 + 2.3 / (1 + last / 400), "val_accuracy": 0.95 - 0.9 / (1 + last / 400)}
    return (*logs, *(LoggedNumber(name, value, ended) for name, value in validated.items()))


def _floats(kind: str, values: Floats) -> array[float]:
    column: array[float] = array("f" if kind == "f" else "d")
    column.frombytes(values.astype(np.dtype(kind), copy=False).tobytes())
    return column
