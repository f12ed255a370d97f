"""The simulated source: a simulated cluster at the pace of this host's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from tfscale.console.engine.inbox import Inbox
from tfscale.console.sources.clock_seconds import put_seconds, sleep_until
from tfscale.console.sources.host_clock import Clock
from tfscale.console.sources.simulation.simulated_cluster import SimulatedCluster
from tfscale.console.sources.simulation.simulated_faults import Fault, check_fault
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.task import Role, Task

RATE = 10.0
"""Steps a second of a healthy cluster."""
MOST_SIMULATED = 5_000
"""Most workers. A snapshot of 2,000 took 3 s of one slow core, one of 5,000 half a minute, and the console fell
behind; of 10,000 there was none after 100 s."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Parts of a simulated cluster besides its workers."""

    servers: int = 0
    """Parameter servers, with a chief before them; 0: the workers train in step."""
    spares: int = 0
    """Hosts with an agent that holds no task."""
    stages: int = 0
    """Stages of a pipeline in each worker; 0: the model is in one piece."""


PLAIN = Shape()
"""Workers alone, in step."""


def simulated_spec(workers: int, shape: Shape = PLAIN) -> ClusterSpec:
    """Return a cluster of `workers` workers, each task and each spare on a host of its own."""
    tasks = [Task(Role.CHIEF, 0)] if shape.servers else []
    tasks += [Task(Role.WORKER, index) for index in range(workers)]
    tasks += [Task(Role.PS, index) for index in range(shape.servers)]
    hosts = [f"10.{at // 62_500}.{at // 250 % 250}.{at % 250 + 2}" for at in range(len(tasks) + shape.spares)]
    placed = dict(zip(tasks, hosts, strict=False))
    return ClusterSpec(
        name="simulated",
        tasks={task: Address(host, 2222) for task, host in placed.items()},
        agents={task: Address(host, 7070) for task, host in placed.items()},
        spares={Address(host, 7070): Address(host, 2222) for host in hosts[len(tasks) :]},
    )


class SimulatedSource:
    """`workers` equal workers with `faults`, whose times count from `run` on."""

    is_live = True

    def __init__(
        self, workers: int, faults: Sequence[Fault] = (), shape: Shape = PLAIN, *, rate: float = RATE, seed: int = 0
    ) -> None:
        """Make the cluster. Raises UsageError for a fault that no task of it can have."""
        self._spec = simulated_spec(workers, shape)
        for fault in faults:
            check_fault(fault, self._spec)
        self._clock = Clock()
        self.cluster = SimulatedCluster(self._spec, tuple(faults), rate, seed, stages=shape.stages)

    @property
    def spec(self) -> ClusterSpec:
        return self._spec

    def now(self) -> float:
        return self._clock()

    async def run(self, inbox: Inbox) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(put_seconds(inbox, self._clock))
            group.create_task(self._play(inbox))

    async def _play(self, inbox: Inbox) -> None:
        for event in self.cluster.arrivals(self._clock()):
            await sleep_until(event.at, self._clock)
            await inbox.room()
            inbox.put(event)
