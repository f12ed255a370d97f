"""Real agents with real tasks, in one process, called over real gRPC."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from tfscale.agent import wire
from tfscale.agent.cluster.peers import Peer
from tfscale.agent.life.daemon import Daemon
from tfscale.agent.process.sessions import kill_session
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision.shim_state import read_state
from tfscale.core.cluster.security import ChannelOpener, open_channel
from tfscale.core.cluster.task import Task
from tfscale.core.records.task_status import TaskState, TaskStatus
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
        async with asyncio.timeout(60):
            await running


@contextmanager
def agent_process(
    settings: AgentSettings, *flags: str, recovery: Mapping[str, object] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run an agent that can be stopped and killed, and its task with it in the end."""
    with agents_process([settings], *flags, recovery=recovery) as process:
        yield process


@contextmanager
def agents_process(
    agents: Sequence[AgentSettings],
    *flags: str,
    recovery: Mapping[str, object] | None = None,
    stderr: int | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the agents of several tasks in a process that can be stopped and killed, and their tasks in the end."""
    first = agents[0]
    file = first.state_dir / f"{first.identity.fingerprint}.json"
    document = json.loads(first.cluster.to_json()) | ({} if recovery is None else {"recovery": recovery})
    file.write_text(json.dumps(document))
    words = ["--cluster", str(file), *(word for each in agents for word in ("--task", str(each.task)))]
    words += ["--run", first.run, "--state-dir", str(first.state_dir), *flags, "--", *first.command]
    process = subprocess.Popen([sys.executable, "-m", "tfscale.agent.cli", *words], stderr=stderr)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for settings in agents:
            end_task(settings)


def end_task(settings: AgentSettings) -> None:
    """Kill a task and its shim."""
    if (state := read_state(settings.files.shim_state)) is not None:
        kill_session(state.shim_pid, state.shim_started)
        with suppress(ProcessLookupError):
            os.kill(state.shim_pid, signal.SIGKILL)


def peer_of(settings: AgentSettings, task: Task, patience: float = 20.0) -> Peer:
    """Return another task of the cluster, as the agent with these settings has it."""
    return Peer(settings.cluster, settings.run, task, ChannelOpener(settings.cluster, False, None), patience)


@asynccontextmanager
async def stub(settings: AgentSettings) -> AsyncIterator[agent_pb2_grpc.AgentAsyncStub]:
    async with open_channel(settings.listen, settings.cluster) as channel:
        yield agent_pb2_grpc.AgentStub(channel)


async def frame_when(settings: AgentSettings, reached: Callable[[telemetry_pb2.Frame], object]) -> telemetry_pb2.Frame:
    """Return the first frame in the agent's stream for which `reached` holds."""
    request = agent_pb2.WatchRequest(schema_version=1)
    async with stub(settings) as service, asyncio.timeout(60):
        async for reply in service.Watch(request, wait_for_ready=True):
            frames = [reply.frame] if reply.HasField("frame") else reply.snapshot.recent[-1:]
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


def named(settings: AgentSettings) -> agent_pb2.TaskIdentity:
    """Return whom a request to this agent names."""
    return wire.identity_message(settings.identity)


async def command(settings: AgentSettings, verb: str, *tasks: str, expected: int = 0) -> list[agent_pb2.Progress]:
    request = agent_pb2.TasksRequest(tasks=tasks, reason="test", expected_generation=expected, to=named(settings))
    async with stub(settings) as service, asyncio.timeout(60):
        return [progress async for progress in getattr(service, verb)(request)]


def kill(status: TaskStatus) -> None:
    """Kill the process of a task."""
    assert status.pid is not None
    os.kill(status.pid, signal.SIGKILL)


async def until(condition: Callable[[], object], patience: float = 30) -> None:
    """Wait until a condition holds. Raises TimeoutError where it does not come to it in time."""
    async with asyncio.timeout(patience):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


def fill(disk: Path) -> None:
    """Leave no room on a disk."""
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
        while file.write(bytes(1 << 12)):
            pass
