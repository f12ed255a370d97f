"""Agents of three workers and of spares on hosts of their own, whose tasks may be placed anew: all in one process."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import grpc.aio
from loopback import free_addresses
from running_agents import W0, W1, W2, named, runs, stub
from tfscale.agent.life import placed_agent
from tfscale.agent.life.own_process import OwnProcess
from tfscale.agent.life.placed_agent import Life, seat_peers
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec, parse_address
from tfscale.core.cluster.placement.placement import Placement, parse_placement, placed_in, placed_spec
from tfscale.core.cluster.recovery_policy import RecoveryPolicy, RestartPolicy
from tfscale.core.cluster.security import ChannelOpener
from tfscale.core.cluster.task import Role, Task
from tfscale.core.records.task_status import TaskStatus
from tfscale.v1 import agent_pb2

MakeSettings = Callable[..., AgentSettings]
TELLS = (sys.executable, "-c", "import os, time; print(os.environ['TF_CONFIG'], flush=True); time.sleep(60)")


@asynccontextmanager
async def seat(
    settings: AgentSettings, process: OwnProcess | None = None, kept: int | None = None
) -> AsyncIterator[deque[Life]]:
    """Run the agent of a seat until the context ends; yield its daemons so far, or the newest of them."""
    lives: deque[Life] = deque(maxlen=kept)
    running = asyncio.create_task(placed_agent.run(settings, process or OwnProcess(), lives.append))
    try:
        yield lives
    finally:
        if lives:
            lives[-1].leave()
        async with asyncio.timeout(60):
            await running


class Cluster:
    """Three workers and spares, each on a host of its own, with the settings of its agent."""

    def __init__(self, make_settings: MakeSettings, spares: int = 1, **policy: Any) -> None:
        ports = [parse_address(each).port for each in free_addresses(2 * (3 + spares))]
        pairs = [
            (
                Address(f"127.0.0.{number + 2}", ports[2 * number]),
                Address(f"127.0.0.{number + 2}", ports[2 * number + 1]),
            )
            for number in range(3 + spares)
        ]
        usual = {"by_role": dict.fromkeys(Role, RestartPolicy.ON_FAILURE), "backoff": 0.1, "most_backoff": 0.2}
        recovery = RecoveryPolicy(**{**usual, **policy})
        self.spec = ClusterSpec(
            name="test",
            tasks={task: place for task, (_, place) in zip((W0, W1, W2), pairs, strict=False)},
            agents={task: agent for task, (agent, _) in zip((W0, W1, W2), pairs, strict=False)},
            spares=dict(pairs[3:]),
            recovery=recovery,
        )
        spec = self.spec
        self.seats = {
            str(task): make_settings(spec, task, seat=spec.agents[task], command=TELLS) for task in spec.tasks
        }
        for spare in spec.spares:
            self.seats["spare"] = make_settings(spec, spec.lead, seat=spare, listen=spare, command=TELLS)

    @property
    def spare(self) -> Address:
        (spare,) = self.spec.spares
        return spare

    def now(self, placement: Placement, task: Task) -> AgentSettings:
        """Return the settings of the agent that holds a task."""
        home = next(each for each in self.seats.values() if each.seat == placement.seats[task])
        return replace(home, cluster=placed_spec(self.spec, placement), task=task)


async def restart_without(settings: AgentSettings, name: str) -> list[agent_pb2.Progress]:
    request = agent_pb2.TasksRequest(without=[name], reason="test", to=named(settings))
    async with stub(settings) as service, asyncio.timeout(60):
        return [progress async for progress in service.Restart(request, wait_for_ready=True)]


async def placement_at(settings: AgentSettings, reached: Callable[[Placement], object]) -> Placement:
    """Return the placement that an agent knows, once `reached` holds for it."""
    assert settings.seat is not None
    peer = seat_peers(settings, parse_address("127.0.0.1:1"), ChannelOpener(settings.cluster, False, None))[
        settings.seat
    ]
    async with asyncio.timeout(60):
        while True:
            report = await peer.ask()
            if report is not None and reached(found := parse_placement(report.placement, settings.cluster)):
                return found
            await asyncio.sleep(0.05)


async def placed(settings: AgentSettings) -> TaskStatus:
    """Return the status of a task once it runs where it was placed; the daemon before may answer for a moment."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(AssertionError, grpc.aio.AioRpcError):
                status = await runs(settings)
                if status.generation >= placed_in(settings.cluster):
                    return status
            await asyncio.sleep(0.05)
