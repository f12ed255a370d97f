"""The tasks of other hosts, by their agents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import grpc
import grpc.aio
from tfscale.agent import wire
from tfscale.agent.gang import GangError, Overtaken
from tfscale.core.cluster import ClusterSpec
from tfscale.core.credentials import open_channel
from tfscale.core.records import TaskStatus
from tfscale.core.task import Task
from tfscale.v1 import agent_pb2, agent_pb2_grpc

_QUICK = 1.0
"""Seconds for a question whose answer may be that nobody is there."""


class Peer:
    """One task of another agent. A gang.Member; the connection is made when it is first used."""

    def __init__(self, spec: ClusterSpec, task: Task, insecure: bool, patience: float = 20.0) -> None:
        self._spec, self._task, self._insecure = spec, task, insecure
        self._patience = patience
        self._channel: grpc.aio.Channel | None = None

    async def fence(self, generation: int, reason: str, unreachable: Callable[[str], None]) -> TaskStatus:
        return await self._apply(agent_pb2.ApplyRequest.TARGET_STOPPED, generation, reason, unreachable)

    async def run(self, generation: int, reason: str, unreachable: Callable[[str], None]) -> TaskStatus:
        return await self._apply(agent_pb2.ApplyRequest.TARGET_RUNNING, generation, reason, unreachable)

    async def generation(self, patience: float = _QUICK, wait: bool = False) -> int | None:
        """The generation that the peer's agent knows; with `wait`, an agent that is not there yet is waited for."""
        request = agent_pb2.DescribeRequest()
        try:
            answer = await self._stub().Describe(request, timeout=patience, wait_for_ready=wait)
        except grpc.aio.AioRpcError:
            return None
        return answer.generation

    async def status(self) -> TaskStatus | None:
        watch = self._stub().Watch(wire.watch_request(), timeout=_QUICK)
        try:
            async for reply in watch:
                return wire.status_record(reply.snapshot.recent[-1].status)
        except grpc.aio.AioRpcError:
            return None
        finally:
            watch.cancel()
        return None

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()

    def _stub(self) -> agent_pb2_grpc.AgentAsyncStub:
        if self._channel is None:
            self._channel = open_channel(self._spec.agents[self._task], self._spec, self._insecure)
        return agent_pb2_grpc.AgentStub(self._channel)

    async def _apply(
        self,
        target: agent_pb2.ApplyRequest.Target.ValueType,
        generation: int,
        reason: str,
        unreachable: Callable[[str], None],
    ) -> TaskStatus:
        """Ask until the agent has answered: it may be killed and started again in the midst of it."""
        request = agent_pb2.ApplyRequest(target=target, generation=generation, reason=reason)
        warning = asyncio.get_running_loop().call_later(self._patience, unreachable, self._silent())
        try:
            while True:
                call = self._stub().Apply(request, wait_for_ready=True)
                try:
                    await call.initial_metadata()
                    warning.cancel()
                    return wire.status_record(await call)
                except grpc.aio.AioRpcError as error:
                    if error.code() is not grpc.StatusCode.UNAVAILABLE:
                        raise self._refused(error) from error
                    await asyncio.sleep(0.1)
                finally:
                    call.cancel()
        finally:
            warning.cancel()

    def _silent(self) -> str:
        return f"the agent of {self._task} at {self._spec.agents[self._task]} does not answer: start it"

    def _refused(self, error: grpc.aio.AioRpcError) -> GangError:
        kind = Overtaken if error.code() is grpc.StatusCode.FAILED_PRECONDITION else GangError
        return kind(f"the agent of {self._task}: {error.details()}")
