"""Round of questions to all agents: state of the host, reachable peers, and speed."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import grpc.aio
from tfscale.console.transport.channels import Channels, first_line
from tfscale.console.wire import calls
from tfscale.core.cluster.task import Task
from tfscale.core.preflight.checkup import Answer, Checkup, MeasuredTransfer
from tfscale.core.preflight.examination import MOST_TASKS, Contact, Examination
from tfscale.core.preflight.mesh import mesh_of, transfers_of
from tfscale.core.validation import check_time

_CONNECT = 5.0
"""Seconds for an agent's first answer."""
_EXAMINE = 25.0
"""Seconds for an examination: a Python has 10 to report its versions, names and disks 5."""
_REACH = 45.0
"""Seconds for 128 tasks and their agents without an answer."""
_AT_ONCE = 128
"""Agents that are asked at the same time: one question takes an agent a moment, but this console answers all of
them."""
_CLOCK_TRIES = 3
"""Readings of a clock, of which the quickest counts: one may be held up on its way."""
_SENT_FOR = 1.0
"""Seconds for which one host sends to another."""


class ExaminationRound:
    """One round. `chance` chooses the sample of a large cluster."""

    def __init__(self, channels: Channels, chance: random.Random) -> None:
        self._channels = channels
        self._spec = channels.spec
        self._chance = chance
        self._limit = asyncio.Semaphore(_AT_ONCE)

    async def checkup(self, *, has_bandwidth: bool) -> Checkup:
        """Ask all agents, some at the same time; a silent agent costs seconds, not the round."""
        tasks, mesh = list(self._spec.tasks), mesh_of(self._spec, self._chance)
        async with contextlib.AsyncExitStack() as listening:
            asked = await asyncio.gather(*(self._examined(task, listening) for task in tasks))
            answers = dict(zip(tasks, asked, strict=True))
            present = [task for task, answer in answers.items() if answer.examination is not None]
            reached = await asyncio.gather(*(self._reach(task, mesh.targets[task]) for task in present))
        pairs = transfers_of(self._spec, self._chance) if has_bandwidth else []
        transfers = [
            await self._transfer(source, target) for source, target in pairs if {source, target} <= set(present)
        ]
        return Checkup(self._spec, answers, dict(zip(present, reached, strict=True)), mesh.left_out, tuple(transfers))

    async def _examined(self, task: Task, listening: contextlib.AsyncExitStack) -> Answer:
        try:
            async with self._limit:
                description = calls.description(
                    await self._channels.stub(task).Describe(
                        calls.describe_request(self._channels.identity(task)), timeout=_CONNECT
                    )
                )
                clock, doubt = await self._clock(task)
                examination = await listening.enter_async_context(self._examination(task))
        except grpc.aio.AioRpcError as error:
            return Answer(_why(error))
        except (TimeoutError, ValueError) as error:
            return Answer(str(error) or f"has not examined its host in {_EXAMINE:g} s")
        way = self._channels.heard(task)
        return Answer("", examination, description.run, description.host, clock, doubt, way=way)

    async def _clock(self, task: Task) -> tuple[float, float]:
        """Return how far the host's clock is ahead, by the fastest of some round trips, and half of its time."""
        tries: list[tuple[float, float]] = []
        for _ in range(_CLOCK_TRIES):
            begin = time.time()
            reply = await self._channels.preflight(task).Reach(
                calls.reach_request(self._channels.identity(task)), timeout=_CONNECT
            )
            end = time.time()
            check_time(reply.at)
            tries.append((end - begin, reply.at - (begin + end) / 2))
        took, ahead = min(tries)
        return ahead, took / 2

    @contextlib.asynccontextmanager
    async def _examination(self, task: Task, *, receives: bool = False) -> AsyncIterator[Examination]:
        """Have a host examined; its agent listens in its task's place until the context ends."""
        request = calls.examine_request(self._channels.identity(task), receives=receives)
        call: grpc.aio.UnaryStreamCall[Any, Any] = self._channels.preflight(task).Examine(request)
        try:
            async with asyncio.timeout(_EXAMINE):
                found: Any = await call.read()
            if found is grpc.aio.EOF:
                raise ValueError("its agent is ending: start it again")
            yield calls.examination(found)
        finally:
            call.cancel()

    async def _reach(self, task: Task, targets: Sequence[Task]) -> tuple[Contact, ...]:
        reached: list[Contact] = []
        async with self._limit:
            for some in (targets[begin : begin + MOST_TASKS] for begin in range(0, len(targets), MOST_TASKS)):
                request = calls.reach_request(self._channels.identity(task), some)
                with contextlib.suppress(grpc.aio.AioRpcError):  # it has been reply as silent, or will be next time
                    reached += calls.contacts(await self._channels.preflight(task).Reach(request, timeout=_REACH))
        return tuple(reached)

    async def _transfer(self, source: Task, target: Task) -> MeasuredTransfer:
        try:
            async with self._examination(target, receives=True) as found:
                if not found.port:
                    return MeasuredTransfer(source, target, None, f"{target} has no port to receive at")
                request = calls.send_request(self._channels.identity(source), target, found.port, _SENT_FOR)
                done = calls.transfer(await self._channels.preflight(source).Send(request, timeout=_EXAMINE))
        except grpc.aio.AioRpcError as error:
            return MeasuredTransfer(source, target, None, _why(error))
        except (TimeoutError, ValueError) as error:
            return MeasuredTransfer(source, target, None, str(error) or "no answer")
        if done.problem:
            return MeasuredTransfer(source, target, None, f"port {found.port} of {target}: {done.problem}")
        return MeasuredTransfer(source, target, 8 * done.bytes / done.seconds)


def _why(error: grpc.aio.AioRpcError) -> str:
    match error.code():
        case grpc.StatusCode.UNAVAILABLE:
            return f"{first_line(error)}: start it"
        case grpc.StatusCode.UNIMPLEMENTED:
            return "it is of a version that examines nothing: upgrade it"
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return "does not answer in time: see whether its host is up"
        case _:
            return first_line(error)
