"""Commands to simulated tasks: their logs and stacks can be read, and they can be restarted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from tfscale.console.engine.events import CommandProgressed
from tfscale.console.sources.simulation.simulated_cluster import SimulatedCluster
from tfscale.console.sources.simulation.simulated_course import STARTS, STOPS, Restart
from tfscale.console.transport.channels import CommandError
from tfscale.console.transport.commands import NoCommands, Stack
from tfscale.core.access.orders import Order
from tfscale.core.cluster.placement.place_rule import MOVABLE
from tfscale.core.cluster.placement.placement import PlacementError
from tfscale.core.cluster.task import Task
from tfscale.core.records.task_status import Stage

Clock = Callable[[], float]
"""Function that returns Unix seconds."""
Sleep = Callable[[float], Awaitable[None]]
"""Function that waits for some seconds."""
_PERIOD = 0.5
"""Seconds between two looks at a simulated log."""
_UNTIL_HEARD = 1.0
"""Seconds until the frames of all tasks have told that they run."""
_REASON = "restart asked for at the console"


class SimulatedCommands(NoCommands):
    """Commands to the tasks of a simulation, which have a past as soon as it runs."""

    def __init__(self, cluster: SimulatedCluster, now: Clock = time.time, sleep: Sleep = asyncio.sleep) -> None:
        """Command the tasks of `cluster`; `now` and `sleep` are those of its time."""
        super().__init__("this is a simulation: its tasks are not there")
        self._cluster = cluster
        self._now, self._sleep = now, sleep

    async def order(self, verb: str, tasks: Sequence[Task], generation: int = 0) -> AsyncIterator[CommandProgressed]:
        if verb != "restart":
            async for progress in super().order(verb, tasks, generation):
                yield progress
        course, at = self._cluster.course, self._cluster.seconds(self._now())
        touched = course.plan(tasks)
        if any(course.restart_of(task, at) for task in touched):
            raise CommandError("cannot restart: a restart is under way")
        if lost := next((task for task in touched if course.holds("gone", task, at)), None):
            agent = course.placement.seats[lost]
            raise CommandError(f"cannot restart: the agent of {lost} at {agent}: it does not answer")
        async for progress in self._followed(self._cluster.restart(tasks, self._now(), _REASON)):
            yield progress

    async def restart_without(self, host: str) -> AsyncIterator[CommandProgressed]:
        placed = [task for task in self._cluster.course.placement.seats if task.role in MOVABLE]
        try:
            restart = self._cluster.restart(placed, self._now(), _REASON, host)
        except PlacementError as error:
            raise CommandError(f"cannot restart: {error}") from None
        async for progress in self._followed(restart):
            yield progress

    async def carry_out(self, order: Order, task: Task | None, argument: str) -> str:
        course = self._cluster.course
        if order.name != "uncordon":
            return await super().carry_out(order, task, argument)
        if argument not in course.placement.cordoned:
            raise CommandError(f"{argument!r} is not cordoned")
        course.uncordon(argument)
        return f"{argument} is uncordoned: tasks may be placed there again"

    async def _followed(self, restart: Restart) -> AsyncIterator[CommandProgressed]:
        """Yield the progress of a restart at its pace."""
        tasks = tuple(task for task in self._cluster.course.spec.tasks if task in restart.tasks)
        generation, _ = self._cluster.course.start_of(tasks[0], restart.started)
        waits = max(0.0, restart.asked - self._cluster.seconds(self._now()))
        for stage, seconds in (
            (Stage.PLANNED, waits),
            (Stage.STOPPING, STOPS),
            (Stage.STARTING, STARTS + _UNTIL_HEARD),
            (Stage.RUNNING, 0.0),
            (Stage.DONE, 0.0),
        ):
            yield CommandProgressed(self._now(), "restart", stage, tasks, generation)
            await self._sleep(seconds)

    async def follow_log(self, task: Task, tail: int) -> AsyncIterator[tuple[str, ...]]:
        lines, printed = self._cluster.logs[task].tail(tail)
        while True:
            if lines:
                yield tuple(lines)
            await self._sleep(_PERIOD)
            lines, printed = self._cluster.logs[task].since(printed)

    async def stack(self, task: Task) -> Stack:
        now = self._now()
        pid, text = self._cluster.stack(task, now)
        if not text:
            return await super().stack(task)
        if pid is None:
            raise CommandError(f"no stack: the process of {task} has ended")
        return Stack(now, pid, text)
