"""A cluster of fake agents: real gRPC servers that tell of synchronous training that does not happen.

Tests start it in their own loop. To watch the console with it:

    python tests/console/fake_agent.py --workers 4 --slow worker:1=60 --file /tmp/fake.toml
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import grpc.aio
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.task import Role, Task
from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.v1 import agent_pb2, report_pb2, telemetry_pb2
from tfscale.v1.agent_pb2_grpc import AgentServicer, add_AgentServicer_to_server

RUNNING = telemetry_pb2.TASK_STATE_RUNNING
STARTING = telemetry_pb2.TASK_STATE_STARTING
STOPPING = telemetry_pb2.TASK_STATE_STOPPING
EXITED = telemetry_pb2.TASK_STATE_EXITED

PHASES = {"update": 0.004, "host": 0.003, "input": 0.006, "compute": 0.040}
TRANSFER = 0.012


@dataclass
class FakeTask:
    """State that the fake agent of one task reports."""

    task: Task
    slow: dict[str, float] = field(default_factory=dict)
    """Extra seconds by phase."""
    state: telemetry_pb2.TaskState.ValueType = RUNNING
    generation: int = 1
    attempt: int = 1
    started: float = field(default_factory=time.time)
    exit: telemetry_pb2.Exit | None = None
    reason: str = ""

    def status(self) -> telemetry_pb2.TaskStatus:
        return telemetry_pb2.TaskStatus(
            state=self.state,
            generation=self.generation,
            attempt=self.attempt,
            pid=4242 if self.state == RUNNING else None,
            started=self.started,
            exit=self.exit,
            reason=self.reason,
        )

    def phases(self, chance: random.Random) -> dict[str, float]:
        return {
            phase: seconds * chance.uniform(0.96, 1.04) + self.slow.get(phase, 0.0) for phase, seconds in PHASES.items()
        }


class FakeCluster:
    """All fake agents, which share one training that does not happen."""

    def __init__(self, workers: int = 2, *, interval: float = 1.0, schema: int = SCHEMA_VERSION) -> None:
        self.tasks = {task: FakeTask(task) for task in (Task(Role.WORKER, index) for index in range(workers))}
        self.agents = {task: FakeAgent(self, task) for task in self.tasks}
        self.interval = interval
        self.schema = schema
        self.generation = 1
        self.saved: float | None = None
        """Unix seconds of the newest checkpoint; None without any."""
        self.step = 0
        self.restart_pause = 0.05
        self._chance = random.Random(7)
        self._end = time.time()

    @property
    def spec(self) -> ClusterSpec:
        tasks = {task: Address("127.0.0.1", 2200 + task.index) for task in self.tasks}
        return ClusterSpec("fake", tasks, {task: Address("127.0.0.1", self.agents[task].port) for task in self.tasks})

    def cluster_file(self) -> str:
        """Return the spec as a TOML file."""
        addresses = ", ".join(f'"{address}"' for address in self.spec.tasks.values())
        agents = "\n".join(f'"{task}" = "{address}"' for task, address in self.spec.agents.items())
        return f'name = "fake"\n[cluster]\nworker = [{addresses}]\n[agents]\n{agents}\n'

    async def __aenter__(self) -> FakeCluster:
        for agent in self.agents.values():
            await agent.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for agent in self.agents.values():
            await agent.stop()

    async def play(self) -> None:
        """Send a frame of every agent each interval, until cancelled."""
        while True:
            self.tick()
            await asyncio.sleep(self.interval)

    def tick(self) -> None:
        """Train for one interval, and send the frames."""
        batches = self._train() if all(task.state == RUNNING for task in self.tasks.values()) else {}
        for task, agent in self.agents.items():
            agent.tell(batches.get(task))

    def kill(self, task: Task, signal: int = 9) -> None:
        """End the task by a signal; its peers exit 1 a moment later."""
        now = time.time()
        for task_state in self.tasks.values():
            task_state.state = EXITED
            if task_state.task == task:
                task_state.exit = telemetry_pb2.Exit(signal=signal, at=now)
            else:
                task_state.exit = telemetry_pb2.Exit(code=1, at=now + 1.8)

    def _train(self) -> dict[Task, telemetry_pb2.StepBatch]:
        batches = {
            task: telemetry_pb2.StepBatch(
                generation=fake.generation, attempt=fake.attempt, reporter=str(task), subject=str(task)
            )
            for task, fake in self.tasks.items()
        }
        until = self._end + self.interval
        while self._end < until:
            rows = {task: fake.phases(self._chance) for task, fake in self.tasks.items()}
            lags = {task: sum(row.values()) for task, row in rows.items()}
            transfer = TRANSFER * self._chance.uniform(0.95, 1.05)
            self._end += max(lags.values()) + transfer
            for task, batch in batches.items():
                row = {**rows[task], "reduce": max(lags.values()) - lags[task] + transfer}
                for phase, seconds in row.items():
                    getattr(batch, phase).append(seconds)
                batch.sequence.append(self.step)
                batch.global_step.append(self.step)
                batch.end.append(self._end)
            self.step += 1
        return batches

    async def restart(self, reason: str) -> AsyncIterator[agent_pb2.Progress]:
        """Restart all tasks of the gang, one after the other, with a pause between the stages."""
        names = [str(task) for task in self.tasks]
        self.generation += 1

        def progress(stage: agent_pb2.Stage.ValueType, tasks: list[str], message: str = "") -> agent_pb2.Progress:
            return agent_pb2.Progress(
                stage=stage, tasks=tasks, generation=self.generation, message=message, at=time.time()
            )

        yield progress(agent_pb2.STAGE_PLANNED, names)
        for stage, state in (
            (agent_pb2.STAGE_STOPPING, STOPPING),
            (agent_pb2.STAGE_STARTING, STARTING),
            (agent_pb2.STAGE_RUNNING, RUNNING),
        ):
            for task, fake in self.tasks.items():
                fake.state, fake.reason = state, reason
                if state == STARTING:
                    fake.generation, fake.exit, fake.started = self.generation, None, time.time()
                self.agents[task].tell(None)
                yield progress(stage, [str(task)])
                await asyncio.sleep(self.restart_pause)
        self._end = time.time()
        yield progress(agent_pb2.STAGE_DONE, names)


class FakeAgent(AgentServicer):
    """Service of one agent."""

    def __init__(self, cluster: FakeCluster, task: Task) -> None:
        self.cluster = cluster
        self.task = task
        self.port = 0
        self.named = str(task)
        self.run = "fake"
        self.is_stalled = False
        self.is_mad = False
        """True while its frames cannot be read."""
        self.sends_profiles = True
        self.watches = 0
        self.sequence = 0
        self.started = time.time()
        self.requests: list[agent_pb2.TasksRequest] = []
        self.farewell: agent_pb2.Farewell | None = None
        """Last words to its watchers; None ends without any."""
        self.orders: list[dict[str, object]] = []
        """Lines of its audit log."""
        self._recent: list[telemetry_pb2.Frame] = []
        self._watchers: set[asyncio.Queue[telemetry_pb2.Frame]] = set()
        self._server: grpc.aio.Server | None = None

    @property
    def is_watched(self) -> bool:
        return bool(self._watchers)

    async def start(self) -> None:
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        add_AgentServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server:
            await self._server.stop(None)
        self._server = None

    def tell(self, batch: telemetry_pb2.StepBatch | None) -> None:
        """Send a frame to all watchers."""
        frame = self._frame(batch)
        self._recent = [*self._recent[-599:], frame]
        for watcher in self._watchers:
            watcher.put_nowait(frame)

    def _frame(self, batch: telemetry_pb2.StepBatch | None) -> telemetry_pb2.Frame:
        fake = self.cluster.tasks[self.task]
        self.sequence += 1
        if self.is_mad:
            batch = telemetry_pb2.StepBatch(reporter="nobody", subject="nobody", sequence=[1], end=[2.0])
        return telemetry_pb2.Frame(
            sequence=self.sequence,
            at=time.time(),
            status=fake.status(),
            probe=telemetry_pb2.ProbeStatus(
                checkpoint=self.cluster.saved,
                state=telemetry_pb2.PROBE_STATE_MEASURING,
                strategy="MultiWorkerMirroredStrategy",
                replicas=len(self.cluster.tasks),
                ranks=len(self.cluster.tasks),
                examples_per_step=64 * len(self.cluster.tasks),
                reduced_bytes_per_step=7_450_000,
                tensorflow="2.21.0",
                keras="keras 3.15.1",
            ),
            host=self._host(fake),
            steps=[batch] if batch else [],
        )

    def _host(self, fake: FakeTask) -> telemetry_pb2.HostSample:
        busy = fake.state == RUNNING
        return telemetry_pb2.HostSample(
            cpu=0.61 if busy else 0.02,
            cores=16,
            load=6.2,
            memory_used=21_000_000_000,
            memory_total=64_000_000_000,
            pressure=telemetry_pb2.Pressure(cpu=0.03, memory=0.0, io=0.01),
            interfaces=[
                telemetry_pb2.Interface(
                    name="eth0", received=118e6 if busy else 200, sent=117e6 if busy else 200, speed=10e9
                )
            ],
            task=telemetry_pb2.TaskUsage(processes=1, threads=84, cpu=9.4, memory=3_400_000_000) if busy else None,
        )

    async def Watch(
        self, request: agent_pb2.WatchRequest, _context: grpc.aio.ServicerContext
    ) -> AsyncIterator[agent_pb2.WatchReply]:
        queue: asyncio.Queue[telemetry_pb2.Frame] = asyncio.Queue()
        self.watches += 1
        self._watchers.add(queue)
        try:
            if self.is_stalled:
                await asyncio.Event().wait()
            yield agent_pb2.WatchReply(
                schema_version=self.cluster.schema,
                snapshot=agent_pb2.Snapshot(
                    description=self._description(),
                    recent=[frame for frame in self._recent if frame.at > request.since] or [self._frame(None)],
                ),
            )
            while True:
                frame = await queue.get()
                if self.farewell is not None:
                    yield agent_pb2.WatchReply(
                        schema_version=self.cluster.schema,
                        farewell=self.farewell,
                    )
                    return
                if self.is_stalled:
                    await asyncio.Event().wait()
                yield agent_pb2.WatchReply(schema_version=self.cluster.schema, frame=frame)
        finally:
            self._watchers.discard(queue)

    async def Describe(
        self, _request: agent_pb2.DescribeRequest, _context: grpc.aio.ServicerContext
    ) -> agent_pb2.Description:
        return self._description()

    def _description(self) -> agent_pb2.Description:
        return agent_pb2.Description(
            schema_version=self.cluster.schema,
            version="0.1.0",
            run=self.run,
            task=self.named,
            lead="worker:0",
            host=f"node-{self.task.index:02}",
            cluster=self.cluster.spec.to_json(),
            command=["python", "train.py", "--epochs", "100"],
            log_path=f"/var/lib/tfscale/fake/{self.task.role}-{self.task.index}.log",
            generation=self.cluster.generation,
            started=self.started,
            pid=1000 + self.task.index,
            fingerprint=self.cluster.spec.fingerprint,
        )

    async def Restart(
        self, request: agent_pb2.TasksRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[agent_pb2.Progress]:
        self.requests.append(request)
        if self.task != self.cluster.spec.lead:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the lead is worker:0: ask its agent")
        if request.expected_generation not in (0, self.cluster.generation):
            message = f"generation is {self.cluster.generation} by now, not {request.expected_generation}"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, message)
        async for progress in self.cluster.restart(request.reason):
            yield progress

    async def Stack(self, _request: agent_pb2.StackRequest, context: grpc.aio.ServicerContext) -> agent_pb2.StackReply:
        if self.cluster.tasks[self.task].state != RUNNING:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the task does not run: there is no stack to show")
        return agent_pb2.StackReply(at=1.5, pid=7, text=f"Main thread (most recent call first):\n  {self.task}")

    async def Profile(
        self, request: agent_pb2.ProfileRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[agent_pb2.ProfileReply]:
        if self.cluster.tasks[self.task].state != RUNNING:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no probe listens in the task")
        for stage in (report_pb2.PROFILE_STAGE_CAPTURING, report_pb2.PROFILE_STAGE_WRITING):
            yield agent_pb2.ProfileReply(stage=stage, folder="/profiles")
            await asyncio.sleep(min(request.seconds, 0.05))
        yield agent_pb2.ProfileReply(
            stage=report_pb2.PROFILE_STAGE_WRITTEN, folder="/profiles", file="/profiles/a.xplane.pb", bytes=1_200_000
        )
        for piece in (1_000_000, 200_000) if request.fetch and self.sends_profiles else ():
            yield agent_pb2.ProfileReply(stage=report_pb2.PROFILE_STAGE_WRITTEN, content=bytes(piece))

    async def FollowLog(
        self, request: agent_pb2.FollowLogRequest, _context: grpc.aio.ServicerContext
    ) -> AsyncIterator[agent_pb2.LogChunk]:
        if request.orders:
            yield agent_pb2.LogChunk(lines=[json.dumps(line) for line in self.orders])
            return
        lines = [f"Epoch 1/100 step {step} loss {2.3 / (1 + step / 50):.4f}" for step in range(200)]
        yield agent_pb2.LogChunk(lines=lines[-request.tail :])
        step = 200
        while request.follow:
            await asyncio.sleep(0.2)
            yield agent_pb2.LogChunk(lines=[f"Epoch 1/100 step {step} loss {2.3 / (1 + step / 50):.4f}"])
            step += 1


async def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--slow", metavar="TASK=MS", help="milliseconds more compute")
    parser.add_argument("--kill", metavar="TASK@S", help="that task dies after S seconds")
    parser.add_argument("--cut", metavar="TASK@S", help="that task's agent goes after S seconds")
    parser.add_argument("--file", type=Path, required=True, help="where to write the cluster file")
    flags = parser.parse_args()
    cluster = FakeCluster(flags.workers)
    cluster.restart_pause = 0.6
    if flags.slow:
        name, _, milliseconds = flags.slow.partition("=")
        cluster.tasks[Task.parse(name)].slow["compute"] = float(milliseconds) / 1000
    async with cluster, asyncio.TaskGroup() as group:
        flags.file.write_text(cluster.cluster_file())
        group.create_task(cluster.play())
        if flags.kill:
            name, _, seconds = flags.kill.partition("@")
            await asyncio.sleep(float(seconds))
            cluster.kill(Task.parse(name))
        if flags.cut:
            name, _, seconds = flags.cut.partition("@")
            await asyncio.sleep(float(seconds))
            await cluster.agents[Task.parse(name)].stop()


if __name__ == "__main__":
    asyncio.run(_main())
