"""Commands of operators: begun here, or carried to the agent that leads, for which a command waits a while."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from tfscale.agent import wire
from tfscale.agent.cluster.gang import GangError, NotLed, Unanswered, Unknown, Verb
from tfscale.agent.cluster.operation import Operation, OperationProgress
from tfscale.agent.cluster.peers import SILENT, Peer
from tfscale.agent.cluster.present_lead import PresentLead
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.task import Task
from tfscale.core.records.task_status import Stage
from tfscale.v1 import agent_pb2

_logger = logging.getLogger(__name__)
_AGAIN = 0.5
"""Seconds until a command is tried again that nobody could begin."""
_ANSWER = 1.0
"""Seconds that are left to the caller for the refusal."""


class LedCommands:
    """Commands given to this agent; `begin` begins one here, and raises TfscaleError."""

    def __init__(
        self,
        settings: AgentSettings,
        present_lead: PresentLead,
        begin: Callable[[Verb, agent_pb2.TasksRequest], Awaitable[Operation]],
    ) -> None:
        self._settings, self._present_lead, self._begin = settings, present_lead, begin

    async def progress(
        self, verb: Verb, request: agent_pb2.TasksRequest, giver: str, left: float | None
    ) -> AsyncIterator[agent_pb2.Progress]:
        """Yield the progress of a command of `giver`, for which its caller waits `left` seconds, None for any time.

        While whoever leads is away, as its agent is started again or cut off, it is tried again. Raises TfscaleError,
        Unknown where an agent fell silent before it told whether it has begun.
        """
        loop, told, refused = asyncio.get_running_loop(), False, GangError
        began = loop.time()
        until = began + (SILENT if left is None else min(SILENT, left - _ANSWER))
        while True:
            tried = loop.time()
            try:
                async for message in self._tried(verb, request, giver):
                    yield message
                return
            except (NotLed, Unanswered) as error:
                if request.carried_for:
                    raise
                now, refused = loop.time(), Unknown if isinstance(error, Unanswered) else refused
                if now + _AGAIN + (now - tried) > until:  # the next try may take as long
                    raise refused(f"{error}; waited {now - began:.0f} s for that") from None
                words = f"waits up to {until - began:.0f} s, since it is not begun: {error}"
            except GangError as error:
                if refused is Unknown:
                    raise Unknown(f"whether the {verb} has begun is not known: {error}") from None
                raise
            if not told:
                told = True
                _logger.warning("a %s %s", verb, words)
                waits = OperationProgress(Stage.WORKING, tuple(map(Task.parse, request.tasks)), 0, words, time.time())
                yield wire.progress_message(waits)
            await asyncio.sleep(_AGAIN)

    async def other_lead(self, carried_for: str) -> Peer | None:
        """Return the agent to which an order is carried, None where this one leads now.

        Raises NotLed for an order that another agent has carried here in vain: their networks differ.
        """
        other = await self._present_lead.other()
        if other is not None and carried_for:
            spec, task = self._settings.cluster, self._settings.task
            raise NotLed(f"{task} does not lead: ask the agent of {other.task} at {spec.agents[other.task]}")
        return other

    async def _tried(
        self, verb: Verb, request: agent_pb2.TasksRequest, giver: str
    ) -> AsyncIterator[agent_pb2.Progress]:
        """Yield the progress of a command that is begun now. Raises NotLed where it is not, and Unanswered.

        After that nobody knows: the request names its generation from then on, so that it is carried out once.
        """
        if (other := await self.other_lead(request.carried_for)) is None:
            operation = await self._begin(verb, request)
            async for progress in operation.progress():
                yield wire.progress_message(progress)
            return
        _logger.info("carries a %s to %s, which leads now", verb, other.task)
        try:
            async for message in self._present_lead.followed(other.carry(verb, request, giver)):
                yield message
        except Unanswered:
            request.expected_generation = request.expected_generation or other.told
            raise
