"""Real agents with real tasks, in one process, called over real gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tfscale.agent import wire
from tfscale.agent.daemon import Daemon
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.security import open_channel
from tfscale.core.cluster.task import Task
from tfscale.core.records import TaskState, TaskStatus
from tfscale.v1 import agent_pb2, agent_pb2_grpc, telemetry_pb2

W0, W1, W2 = (Task.parse(f"worker:{index}") for index in range(3))


@asynccontextmanager
async def agent(settings: AgentSettings) -> AsyncIterator[asyncio.Task[int]]:
    """Run an agent until the context ends; yield its task, whose result is the exit status."""
    settings.files.folder.mkdir(parents=True, exist_ok=True)
    daemon = Daemon(settings)
    running = asyncio.create_task(daemon.run())
    try:
        yield running
    finally:
        daemon.leave()
        async with asyncio.timeout(10):
            await running


@asynccontextmanager
async def stub(settings: AgentSettings) -> AsyncIterator[agent_pb2_grpc.AgentAsyncStub]:
    async with open_channel(settings.listen, settings.cluster) as channel:
        yield agent_pb2_grpc.AgentStub(channel)


async def frame_when(settings: AgentSettings, reached: Callable[[telemetry_pb2.Frame], object]) -> telemetry_pb2.Frame:
    """Return the first frame in the agent's stream for which `reached` holds."""
    request = agent_pb2.WatchRequest(schema_version=1)
    async with stub(settings) as service, asyncio.timeout(10):
        async for reply in service.Watch(request, wait_for_ready=True):
            frames = reply.snapshot.recent[-1:] if reply.HasField("snapshot") else [reply.frame]
            for frame in frames:
                if reached(frame):
                    return frame
    raise AssertionError("the stream ended")


async def status_when(settings: AgentSettings, reached: Callable[[TaskStatus], object]) -> TaskStatus:
    """Return the first status in the agent's stream for which `reached` holds."""
    return wire.status_record(
        (await frame_when(settings, lambda frame: reached(wire.status_record(frame.status)))).status
    )


async def says(settings: AgentSettings, text: str) -> None:
    """Wait until the task's log, which a thread of its shim writes, has this text."""
    log = settings.files.log
    await status_when(settings, lambda _: log.exists() and text in log.read_text())


async def runs(settings: AgentSettings) -> TaskStatus:
    return await status_when(settings, lambda status: status.state is TaskState.RUNNING)


async def command(settings: AgentSettings, verb: str, *tasks: str, expected: int = 0) -> list[agent_pb2.Progress]:
    request = agent_pb2.TasksRequest(tasks=tasks, reason="test", expected_generation=expected)
    async with stub(settings) as service, asyncio.timeout(10):
        return [progress async for progress in getattr(service, verb)(request)]
