"""First start of the task by its agent: a cold start, a task that an earlier agent left, or a command under way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from tfscale.agent.cluster.gang import Verb
from tfscale.agent.life.agent_parts import AgentParts
from tfscale.agent.life.departure import Departure
from tfscale.agent.life.jobs import Jobs
from tfscale.agent.placement.agreement import AgreedCommand
from tfscale.agent.placement.mover import Mover
from tfscale.agent.supervision.task_environment import probe_site
from tfscale.agent.supervision.transitions import has_finished
from tfscale.core.cluster.placement.place_rule import MOVABLE
from tfscale.core.cluster.placement.placement import placed_in
from tfscale.core.cluster.task import Task
from tfscale.core.errors import TfscaleError
from tfscale.core.records.task_status import Reason, TaskState, TaskStatus
from tfscale.core.text import exit_phrase

_logger = logging.getLogger(__name__)
_LEAD_PATIENCE = 20.0
"""Seconds for which a task waits for the lead's agent to name the generation, before it starts in its own."""
_AGAIN = 1.0
"""Seconds between two tries of the lead to begin, and between two questions whether it has."""
_BEGUN = (TaskState.STARTING, TaskState.RUNNING)


class FirstStart:
    """First start by one agent: first `adopt`, then `begin`, once all agents of this process are ready."""

    def __init__(self, parts: AgentParts, jobs: Jobs, departure: Departure) -> None:
        self._parts, self._settings, self._jobs, self._departure = parts, parts.settings, jobs, departure

    async def adopt(self) -> TaskStatus:
        """Return the status of the task that an earlier agent left; PENDING without one.

        The journal has first to know the placement in which this agent holds its task: the command that made that
        placement has been carried out.
        """
        entry, generation = self._parts.journal.entry, placed_in(self._settings.cluster)
        is_old = entry.intent is not None and entry.intent.placement and entry.intent.generation <= generation
        await self._parts.journal.update(generation=generation, intent=None if is_old else entry.intent)
        return await self._parts.local.adopt()

    async def begin(self, status: TaskStatus) -> None:
        """Start the task, unless it is alive, or has ended without an agent."""
        parts = self._parts
        begins = self._settings.restart or self._is_placed_anew
        cold = status.state is TaskState.PENDING or (begins and not parts.supervisor.alive)
        self._log_earlier_start(status, cold)
        if cold and probe_site() is None:
            _logger.warning("the trainer part of tfscale is not installed beside the agent: no step will be measured")
        if cold and (self._is_placed_anew or not self._was_starting(status)):
            if parts.mover is not None:
                self._jobs.start(self._begin_agreed(parts.mover))
            elif self._settings.leads:
                await parts.gang.begin()
            else:
                self._jobs.start(self._join_once())
            return
        parts.gang.resume()
        if self._settings.leads and has_finished(status):
            self._jobs.start(self._departure.finish())
        parts.recovery.look()
        if not cold and not parts.supervisor.alive and parts.journal.entry.ended_by is not None:
            self._departure.on_over(has_failed=False)

    async def _begin_agreed(self, mover: Mover) -> None:
        """Start the task once a majority of the agents has told where tasks sit now, and none sits elsewhere."""
        refusal = ""
        while True:
            try:
                newest = await mover.learn(self._parts.supervisor.tell_waiting)
                return await self._start_unless_moved(newest, mover)
            except TfscaleError as error:  # another agent gave a command, no majority answers any more, a full disk
                if str(error) != refusal:
                    _logger.warning("the start is tried again: %s", error)
                refusal = str(error)
            await asyncio.sleep(_AGAIN)

    async def _start_unless_moved(self, newest: AgreedCommand | None, mover: Mover) -> None:
        if not self._departure.moves:
            await self._start_after(newest, mover)

    async def _start_after(self, newest: AgreedCommand | None, mover: Mover) -> None:
        """Start the task as the newest command of all wants it, None before the first."""
        entry, placed = self._parts.journal.entry, placed_in(self._settings.cluster)
        ended = 0 if newest is None else newest.ended.get(str(self._settings.task), 0)
        if self._is_placed_anew and (newest is None or newest.generation <= placed):
            await self._parts.local.join(placed, self._settings.start_reason or Reason("placed anew"))
        elif not self._settings.leads:
            await self._lead_has_begun(ended)
            await self._join_agreed(newest, mover)
        elif ended and not entry.drained:  # its disk was lost, or it was to start after a move
            await self._parts.journal.update(generation=ended, ended_by=Verb.STOP)
            self._tell_ended(ended)
            self._departure.on_over(has_failed=False)
        else:
            self._go_on_without(newest, mover, await self._parts.gang.begin())

    async def _join_agreed(self, newest: AgreedCommand | None, mover: Mover) -> None:
        """Start the task in the generation of the lead's agent; look anew where another command has come meanwhile.

        The lead may have named the generation of a command that leaves this task elsewhere.
        """
        told = await self._ask_lead()
        now = await mover.learn(self._parts.supervisor.tell_waiting)
        if now != newest:
            await self._start_unless_moved(now, mover)
            return
        await self._join(told, 0 if newest is None else newest.generation)
        if told is None:
            self._go_on_without(newest, mover, [self._settings.cluster.lead])

    def _go_on_without(self, newest: AgreedCommand | None, mover: Mover, absent: Iterable[Task]) -> None:
        """Have the gang go on without these tasks' agents where they stay away in the midst of a run."""
        if newest is not None and self._settings.cluster.recovery is not None:
            mover.expect(absent)

    async def _lead_has_begun(self, ended: int) -> None:
        """Wait while the lead's agent answers that its own task waits for a majority: it starts this task, too.

        Where a command of generation `ended` has ended this task, wait until the lead's task runs in a newer one.
        """
        lead = self._parts.peers[self._settings.cluster.lead]
        if ended:
            self._tell_ended(ended)
        while True:
            status = await lead.status()
            if ended and status is not None and status.state in _BEGUN and status.generation > ended:
                return
            if not ended and (status is None or status.state is not TaskState.PENDING):
                return
            await asyncio.sleep(_AGAIN)

    def _tell_ended(self, generation: int) -> None:
        why = f"a stop in generation {generation} has ended it: start it by hand"
        _logger.warning("not started: %s", why)
        self._parts.supervisor.tell_waiting(why)

    @property
    def _is_placed_anew(self) -> bool:
        """True where the start of the own task is the second phase of a restart that has moved tasks.

        Each agent carries out this phase by itself, in the generation of the placement: all older tasks were stopped
        before.
        """
        is_older = self._parts.journal.entry.task_generation < placed_in(self._settings.cluster)
        return is_older and self._settings.task.role in MOVABLE

    def _log_earlier_start(self, status: TaskStatus, cold: bool) -> None:
        """Log that an earlier agent's task runs, or has ended meanwhile, in place of its missing output."""
        log, is_alive = self._settings.files.log, self._parts.supervisor.alive
        if is_alive and self._settings.show_output:
            _logger.warning("joined the task, which an earlier agent had started; its earlier output is in %s", log)
        elif not cold and not is_alive:
            how = f"ended ({status.reason})" if status.exit is None else exit_phrase(status.exit)
            then = "it is reported" if self._parts.recovery.is_pending else "give --restart to run it again"
            _logger.warning("the task %s while no agent was there; %s; its log is %s", how, then, log)

    def _was_starting(self, status: TaskStatus) -> bool:
        """Return whether the last agent was killed during a command, just before it started its own task."""
        entry = self._parts.journal.entry
        started = entry.intent is not None and entry.intent.starting
        return started and status.state is TaskState.PENDING and not entry.drained

    async def _ask_lead(self) -> int | None:
        """Return the generation of the lead's agent, None where it does not tell one in time."""
        return await self._parts.peers[self._settings.cluster.lead].generation(_LEAD_PATIENCE, wait=True)

    async def _join(self, told: int | None, agreed: int = 0) -> None:
        """Start the task in the generation that the lead's agent told, else in the newest known here or `agreed` on."""
        if (generation := told) is None:
            lead, agents = self._settings.cluster.lead, self._settings.cluster.agents
            generation = max(1, agreed, self._parts.journal.entry.generation)
            why = "refuses" if self._parts.peers[lead].refusal else "does not answer"
            _logger.warning(
                "the agent of %s at %s %s: the task starts in its own generation %d",
                lead, agents[lead], why, generation,
            )  # fmt: skip
        await self._parts.local.join(max(1, generation), Reason("started with its agent"))

    async def _join_once(self) -> None:
        try:
            await self._join(await self._ask_lead())
        except TfscaleError as error:
            _logger.error("%s", error)
