"""Commands to simulated tasks: their logs and stacks can be read; nothing else reaches into them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from tfscale.console.sources.simulation.simulated_cluster import SimulatedCluster
from tfscale.console.transport.channels import CommandError
from tfscale.console.transport.commands import NoCommands, Stack
from tfscale.core.cluster.task import Task

_PERIOD = 0.5
"""Seconds between two looks at a simulated log."""


class SimulatedCommands(NoCommands):
    """Commands to the tasks of a simulation, which have a past as soon as it runs."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__("this is a simulation: its tasks are not there")
        self._cluster = cluster

    async def follow_log(self, task: Task, tail: int) -> AsyncIterator[tuple[str, ...]]:
        lines, printed = self._cluster.logs[task].tail(tail)
        while True:
            if lines:
                yield tuple(lines)
            await asyncio.sleep(_PERIOD)
            lines, printed = self._cluster.logs[task].since(printed)

    async def stack(self, task: Task) -> Stack:
        now = time.time()
        pid, text = self._cluster.stack(task, now)
        if not text:
            return await super().stack(task)
        if pid is None:
            raise CommandError(f"no stack: the process of {task} has ended")
        return Stack(now, pid, text)
