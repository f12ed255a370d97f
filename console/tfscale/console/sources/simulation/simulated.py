"""The simulated source: a simulated cluster at the pace of this host's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tfscale.console.engine.inbox import Inbox
from tfscale.console.sources.clock_seconds import put_seconds, sleep_until
from tfscale.console.sources.host_clock import Clock
from tfscale.console.sources.simulation.simulated_cluster import SimulatedCluster
from tfscale.console.sources.simulation.simulated_faults import Fault
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.task import Role, Task
from tfscale.core.errors import UsageError

RATE = 10.0
"""Steps a second of a healthy cluster."""
MOST_SIMULATED = 5_000
"""Most workers. A snapshot of 2,000 took 3 s of one slow core, one of 5,000 half a minute, and the console fell
behind; of 10,000 there was none after 100 s."""


def simulated_spec(workers: int) -> ClusterSpec:
    """Return a cluster of `workers` workers, each on a host of its own."""
    hosts = [f"10.{index // 62_500}.{index // 250 % 250}.{index % 250 + 2}" for index in range(workers)]
    tasks = {Task(Role.WORKER, index): host for index, host in enumerate(hosts)}
    return ClusterSpec(
        name="simulated",
        tasks={task: Address(host, 2222) for task, host in tasks.items()},
        agents={task: Address(host, 7070) for task, host in tasks.items()},
    )


class SimulatedSource:
    """`workers` equal workers in synchronous training with `faults`, whose times count from `run` on."""

    is_live = True

    def __init__(self, workers: int, faults: Sequence[Fault] = (), *, rate: float = RATE, seed: int = 0) -> None:
        """Make the cluster. Raises UsageError for a fault of a task outside it."""
        self._spec = simulated_spec(workers)
        for fault in faults:
            if fault.task not in self._spec.tasks:
                raise UsageError(f"--fault: there is no {fault.task} among {workers} simulated workers")
        self._clock = Clock()
        self.cluster = SimulatedCluster(self._spec, tuple(faults), rate, seed)

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
