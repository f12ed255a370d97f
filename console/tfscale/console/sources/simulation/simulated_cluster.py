"""A simulated cluster: arrivals and raw counters as agents of healthy and of faulty tasks would send them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from tfscale.console.engine.events import Event, FrameArrived
from tfscale.console.sources.simulation.simulated_agent import EPOCH, SimulatedAgent
from tfscale.console.sources.simulation.simulated_course import Course, Restart
from tfscale.console.sources.simulation.simulated_faults import Fault
from tfscale.console.sources.simulation.simulated_log import SimulatedLog
from tfscale.console.sources.simulation.simulated_stack import stack_of
from tfscale.console.sources.simulation.simulated_steps import SimulatedSteps
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Task


class SimulatedCluster:
    """Equal workers, some with faults: in synchronous training, or at their own pace with parameter servers."""

    def __init__(self, spec: ClusterSpec, faults: Sequence[Fault], rate: float, seed: int, *, stages: int = 0) -> None:
        self._spec, self._stages = spec, stages
        self.course = Course(spec, faults)
        self._steps = _steps_by_worker(self.course, rate, seed)
        # Agents know nothing of each other's seconds.
        phases = np.random.default_rng(seed).random(len(spec.tasks)).tolist()
        self._phase: dict[Task, float] = dict(zip(spec.tasks, phases, strict=True))
        self._begin: float | None = None
        self._pids: dict[Task, int | None] = {}
        self.logs = {task: SimulatedLog(EPOCH) for task in spec.tasks}

    def arrivals(self, begin: float) -> Iterator[Event]:
        """Yield the events for ever, in the order of their times, which begin at `begin`, Unix seconds."""
        cluster, self._begin = self._spec.to_json(), begin
        agents = [
            SimulatedAgent(self.course, task, self._reported_by(task), begin, cluster, self._stages)
            for task in sorted(self._spec.tasks, key=lambda task: self._phase[task])
        ]
        second = 0
        while True:
            self.course.replace_dead(second)
            for agent in agents:
                for event in agent.events(second + self._phase[agent.task]):
                    if isinstance(event, FrameArrived):
                        self._pids[agent.task] = event.frame.status.pid
                        self.logs[agent.task].note(event.frame)
                    yield event
            second += 1

    def restart(self, tasks: Iterable[Task], now: float, reason: str, without: str = "") -> Restart:
        """Restart tasks as soon as their present steps are made; `now` in Unix seconds. Raises PlacementError."""
        made = max(steps.clock for steps in self._steps.values())
        return self.course.restart(tasks, max(self.seconds(now), made), reason, without)

    def seconds(self, now: float) -> float:
        """Return a time, Unix seconds, in seconds of the simulation; 0 before its begin."""
        return 0.0 if self._begin is None else now - self._begin

    def stack(self, task: Task, now: float) -> tuple[int | None, str]:
        """Return a task's process and its stacks at `now`, Unix seconds; None without a process, "" before it began."""
        if self._begin is None:
            return None, ""
        return self._pids.get(task), stack_of(task, self.course.faults, now - self._begin)

    def _reported_by(self, task: Task) -> dict[Task, SimulatedSteps]:
        """Return the steps by worker that a task's agent needs: a chief measures all, a server serves all."""
        return {task: self._steps[task]} if task in self._steps else self._steps


def _steps_by_worker(course: Course, rate: float, seed: int) -> dict[Task, SimulatedSteps]:
    """Return the steps of each worker: those of all together, or of each its own."""
    if not course.servers:
        return dict.fromkeys(course.workers, SimulatedSteps(course.workers, course, rate, seed))
    # Far from each other's seeds, each of which counts the parts that were made.
    return {worker: SimulatedSteps([worker], course, rate, seed + 100_000 * worker.index) for worker in course.workers}
