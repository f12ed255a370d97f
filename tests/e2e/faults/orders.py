"""Calls to agents of a trial, as from another program."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import grpc.aio
from tfscale.agent import wire
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.security import open_channel
from tfscale.core.cluster.task import Task
from tfscale.core.cluster.task_identity import identity_of
from tfscale.core.records.task_status import TaskStatus
from tfscale.v1 import agent_pb2, agent_pb2_grpc

T = TypeVar("T")
_PATIENCE = 5.0
"""Seconds for an agent to tell its state."""
_BUSY = 30.0
"""Seconds for a restart of before to end, of which the last answer may come after its tasks run."""


_loop = asyncio.new_event_loop()
"""Loop of all calls, in a thread of its own: gRPC wakes the loop of a channel after it is closed, too."""
threading.Thread(target=_loop.run_forever, daemon=True).start()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, from any thread."""
    return asyncio.run_coroutine_threadsafe(coroutine, _loop).result()


def statuses(spec: ClusterSpec) -> dict[str, TaskStatus | None]:
    """Return the status of each task; None where its agent does not answer."""

    async def ask() -> list[TaskStatus | None]:
        return await asyncio.gather(*(_status(spec, task) for task in spec.tasks))

    return dict(zip(map(str, spec.tasks), run(ask()), strict=True))


async def _status(spec: ClusterSpec, task: Task) -> TaskStatus | None:
    try:
        async with open_channel(spec.agents[task], spec) as channel, asyncio.timeout(_PATIENCE):
            watch = agent_pb2_grpc.AgentStub(channel).Watch(agent_pb2.WatchRequest(schema_version=1))
            async for reply in watch:
                return wire.status_record(reply.snapshot.recent[-1].status)
    except (grpc.aio.AioRpcError, TimeoutError):
        return None
    return None


def identity(spec: ClusterSpec, task: str) -> agent_pb2.TaskIdentity:
    return wire.identity_message(identity_of(spec, spec.name, Task.parse(task)))


def any_task(spec: ClusterSpec) -> agent_pb2.TaskIdentity:
    """Return whom a request names that is for a seat, whatever it holds."""
    return agent_pb2.TaskIdentity(run=spec.name, fingerprint=identity(spec, str(spec.lead)).fingerprint)


def order(
    spec: ClusterSpec,
    verb: str,
    *tasks: str,
    on_progress: Callable[[agent_pb2.Progress], None] = lambda _: None,
    patience: float = 90.0,
    **fields: Any,
) -> str:
    """Give an order to the lead's agent, and return its last word, or the refusal: `CODE details`."""

    async def ask() -> str:
        request = agent_pb2.TasksRequest(
            **{"tasks": tasks, "reason": "a trial", "to": identity(spec, str(spec.lead)), **fields}
        )
        last = ""
        async with open_channel(spec.agents[spec.lead], spec) as channel, asyncio.timeout(patience):
            async for progress in getattr(agent_pb2_grpc.AgentStub(channel), verb)(request):
                on_progress(progress)
                last = f"{agent_pb2.Stage.Name(progress.stage).removeprefix('STAGE_')} {progress.message}".strip()
        return last

    return _answer(ask)


def call(spec: ClusterSpec, task: str, method: str, request: Any, patience: float = 30.0) -> Any:
    """Call a method of a task's agent; return its answer, the first of a stream, or the refusal: `CODE details`."""

    async def ask() -> Any:
        async with open_channel(spec.agents[Task.parse(task)], spec) as channel, asyncio.timeout(patience):
            answer = getattr(agent_pb2_grpc.AgentStub(channel), method)(request)
            if isinstance(answer, grpc.aio.UnaryUnaryCall):
                return await answer
            async for each in answer:
                return each
            return None

    return _answer(ask)


def apply(spec: ClusterSpec, task: str, target: str, generation: int, reason: str = "a trial") -> Any:
    """Order one agent what its lead would order it."""
    wanted = agent_pb2.ApplyRequest.Target.Value(f"TARGET_{target}")
    fields = {"target": wanted, "generation": generation, "reason": reason, "to": identity(spec, task)}
    return call(spec, task, "Apply", agent_pb2.ApplyRequest(**fields), 60)


def _answer(ask: Callable[[], Any]) -> Any:
    try:
        return run(ask())
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name} {error.details() or ''}".strip()
    except TimeoutError:
        return "no answer"


class Restarting:
    """Restart under way, in a thread, from the moment on at which it has come to a stage."""

    def __init__(
        self, spec: ClusterSpec, stage: str, tasks: Sequence[str], of: Sequence[str], without: Sequence[str] = ()
    ) -> None:
        """Ask for a restart of `tasks`, or without hosts, and wait until it is at the stage for all tasks `of`."""
        self.last = ""
        self._reached, self._left = threading.Event(), set(of)
        self._stage = agent_pb2.Stage.Value(f"STAGE_{stage}")
        self._thread = threading.Thread(target=self._ask, args=(spec, tasks, without), daemon=True)
        self._thread.start()
        if not self._reached.wait(60):
            raise AssertionError(f"the restart never came to {stage}: {self.last}")

    def wait(self) -> str:
        """Return the last word of the restart."""
        self._thread.join(60)
        return self.last

    def _ask(self, spec: ClusterSpec, tasks: Sequence[str], without: Sequence[str]) -> None:
        deadline = time.monotonic() + _BUSY
        while True:
            self.last = order(spec, "Restart", *tasks, on_progress=self._look, without=without)
            if "is under way" not in self.last or time.monotonic() > deadline:
                return
            time.sleep(0.2)

    def _look(self, progress: agent_pb2.Progress) -> None:
        if progress.stage == self._stage:
            self._left -= set(progress.tasks)
            if not self._left:
                self._reached.set()
