"""Three local tasks, one party of which is killed at one moment of a restart: an agent, a shim, a task, or the caller.

The caller of Restart just goes away; everything else is killed by SIGKILL. A second later a killed agent is started
again with the same command, as an operator would do it. A restart by hand follows only where the tasks do not all run
by themselves.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc.aio
import psutil
from local_cluster import run_files, write_cluster
from tfscale.agent import wire
from tfscale.agent.supervision.shim_state import ShimState, read_state
from tfscale.core.cluster.file.cluster_file import load_cluster
from tfscale.core.cluster.security import open_channel
from tfscale.core.cluster.task import Role, Task
from tfscale.core.cluster.task_files import TaskFiles
from tfscale.core.cluster.task_identity import identity_of
from tfscale.core.records.task_status import TaskState, TaskStatus
from tfscale.v1 import agent_pb2, agent_pb2_grpc

TASKS = tuple(Task(Role.WORKER, index) for index in range(3))
LEAD, PEER = TASKS[0], TASKS[1]
MARK = "TFSCALE_TEST_CLUSTER"
"""Variable by which the processes of a cluster are found: agents hand their environment on."""

PROGRAM = """
import signal, sys, time
def end(*_):
    time.sleep(0.4)  # saves a checkpoint
    sys.exit(143)
signal.signal(signal.SIGTERM, end)
while True:
    time.sleep(0.05)
"""


@dataclass(frozen=True)
class Aftermath:
    """State of the cluster after one kill."""

    untouched: int | None
    """Number of the three tasks whose process outlived the kill by a second; None where they were ending anyway."""
    states: str
    generations: tuple[int, ...]
    seconds: float | None
    """Time from the kill until all three ran in one generation without help; None where they needed a restart."""
    mended: bool
    """True when all three ran in one generation in the end."""
    left: int
    """Number of processes that were alive after all agents had been told to end."""


class Cluster:
    """Three agents as processes of their own on loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = write_cluster(folder, len(TASKS))
        self.spec = load_cluster(self.file)
        self.agents: dict[Task, asyncio.subprocess.Process] = {}
        (folder / "task.py").write_text(PROGRAM)

    async def start(self, task: Task) -> None:
        flags = [f"--role={task.role}", f"--index={task.index}", f"--cluster={self.file}", f"--state-dir={self.folder}"]
        command = [sys.executable, "-m", "tfscale.agent.cli", *flags, "--grace=5", "--", sys.executable]
        with (self.folder / f"agent-{task.index}.err").open("ab") as errors:
            self.agents[task] = await asyncio.create_subprocess_exec(
                *command,
                self.folder / "task.py",
                env=os.environ | {MARK: str(self.folder)},
                stderr=errors,
            )

    async def kill_agent(self, task: Task) -> None:
        self.agents[task].kill()
        await self.agents[task].wait()

    def shim(self, task: Task) -> ShimState | None:
        return read_state(TaskFiles(run_files(self.folder), task).shim_state)

    def task_pids(self) -> set[int]:
        states = map(self.shim, TASKS)
        return {state.task_pid for state in states if state is not None and state.task_pid is not None}

    async def status(self, task: Task) -> TaskStatus | None:
        async with open_channel(self.spec.agents[task], self.spec) as channel:
            watch = agent_pb2_grpc.AgentStub(channel).Watch(agent_pb2.WatchRequest(schema_version=1), timeout=2)
            try:
                async for reply in watch:
                    return wire.status_record(reply.snapshot.recent[-1].status)
            except grpc.aio.AioRpcError:
                return None
            finally:
                watch.cancel()
        return None

    async def statuses(self) -> list[TaskStatus | None]:
        return list(await asyncio.gather(*map(self.status, TASKS)))

    async def restart(self) -> AsyncIterator[agent_pb2.Progress]:
        async with open_channel(self.spec.agents[LEAD], self.spec) as channel:
            to = wire.identity_message(identity_of(self.spec, self.spec.name, LEAD))
            request = agent_pb2.TasksRequest(tasks=[str(PEER)], reason="test", to=to)
            async for progress in agent_pb2_grpc.AgentStub(channel).Restart(request):
                yield progress

    async def settle(self, patience: float) -> bool:
        """Wait until all three run in one generation; return False after `patience` seconds in which they did not."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            found = [status for status in await self.statuses() if status is not None]
            running = [status.state for status in found] == [TaskState.RUNNING] * len(TASKS)
            if running and len({status.generation for status in found}) == 1:
                return True
            await asyncio.sleep(0.05)
        return False

    def living(self) -> list[psutil.Process]:
        """Return every process of this cluster that is alive."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == str(self.folder) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    async def close(self) -> int:
        """Tell all agents to end, kill what is left then, and return how many processes that were."""
        for agent in self.agents.values():
            if agent.returncode is None:
                agent.send_signal(signal.SIGTERM)
        await asyncio.gather(*(agent.wait() for agent in self.agents.values()))
        left = self.living()
        for process in left:
            process.kill()
        return len(left)


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Cluster]:
    """Start a cluster and wait until all its tasks run."""
    cluster = Cluster(folder)
    try:
        await asyncio.gather(*map(cluster.start, TASKS))
        await cluster.settle(60)
        # A shim tells its agent of the start while it still writes it down.
        while len(cluster.task_pids()) < len(TASKS):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        yield cluster
    finally:
        await cluster.close()


async def restarting(cluster: Cluster, moment: str) -> asyncio.Task[None]:
    """Begin a restart and return its call at the given moment of it. Raises AioRpcError where it is refused."""
    reached = asyncio.Event()

    async def follow() -> None:
        stopped: set[str] = set()
        try:
            async for progress in cluster.restart():
                if progress.stage == agent_pb2.STAGE_STOPPED:
                    stopped |= set(progress.tasks)
                hit = {
                    "stopping": progress.stage == agent_pb2.STAGE_STOPPING and str(PEER) in progress.tasks,
                    "between": len(stopped) == len(TASKS),
                    "starting": progress.stage == agent_pb2.STAGE_STARTING and str(PEER) in progress.tasks,
                }
                if hit[moment]:
                    reached.set()
        except grpc.aio.AioRpcError:
            if not reached.is_set():  # else its agent was killed, as it should be
                raise

    async def accepted() -> None:
        """Follow the restart; one that comes before the lead has written down the start of all tasks is repeated."""
        while True:
            try:
                return await follow()
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.ABORTED:
                    raise
                await asyncio.sleep(0.05)

    call = asyncio.create_task(accepted())
    waiting = asyncio.create_task(reached.wait())
    await asyncio.wait([call, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not reached.is_set():
        await call
        raise AssertionError(f"the restart ended before its moment {moment}")
    if moment == "stopping":
        await asyncio.sleep(0.1)
    return call


async def kill(cluster: Cluster, party: str, call: asyncio.Task[None] | None) -> Task | None:
    """Kill the party, and return the task whose agent must be started again."""
    state = cluster.shim(PEER)
    if party == "caller" and call is not None:
        call.cancel()
    elif party == "shim of a peer" and state is not None:
        os.kill(state.shim_pid, signal.SIGKILL)
    elif party == "task of a peer" and state is not None and state.task_pid is not None:
        os.kill(state.task_pid, signal.SIGKILL)
    elif party.startswith("agent"):
        victim = LEAD if party == "agent of the lead" else PEER
        await cluster.kill_agent(victim)
        return victim
    return None


def alive(pids: set[int]) -> int:
    return sum(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids)


async def aftermath(folder: Path, party: str, moment: str, patience: float) -> Aftermath:
    """Kill the party at the moment, and wait at most `patience` seconds for the cluster to mend itself."""
    async with running(folder) as cluster:
        call = None if moment == "running" else await restarting(cluster, moment)
        before = cluster.task_pids()
        begin = time.monotonic()
        orphan = await kill(cluster, party, call)
        untouched = None
        if moment == "running" or orphan is not None:
            await asyncio.sleep(1.0)
            untouched = alive(before) if moment == "running" else None
        if orphan is not None:
            await cluster.start(orphan)
        elif party != "caller":
            await asyncio.sleep(0.2)  # so that the agent notices before this test does
        seconds = time.monotonic() - begin if await cluster.settle(patience) else None
        found = await cluster.statuses()
        if seconds is None:
            async for _ in cluster.restart():
                pass
        mended = seconds is not None or await cluster.settle(patience)
        if call is not None:
            call.cancel()
        states = ", ".join(str(status and status.state) for status in found)
        generations = tuple(status.generation for status in found if status is not None)
        return Aftermath(untouched, states, generations, seconds, mended, left=await cluster.close())
