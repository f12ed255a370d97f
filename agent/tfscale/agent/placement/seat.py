"""Seat of this agent: the newest placement known here, and the task placed on this agent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from tfscale.agent.cluster.gang import Overtaken
from tfscale.agent.cluster.journal import JournalError
from tfscale.agent.cluster.start_trial import StartTrial
from tfscale.agent.placement.seat_journal import SeatJournal
from tfscale.agent.preflight.task_port import port_problem
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.placement.file_digests import file_digests
from tfscale.core.cluster.placement.placement import Placement, placed_spec, seats_of
from tfscale.core.cluster.task import Task
from tfscale.core.records.task_status import Reason

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SeatReport:
    """State of a seat, as its agent reports it."""

    task: str
    """Task that the seat holds, empty where it holds none."""
    placement: str
    """Newest placement that the seat knows, as JSON."""
    trouble: str = ""
    """Reason for which the seat could not start a task; empty where it could, or has not tried."""
    file: tuple[str, ...] = ()
    """Digests of the parts of its cluster file in which all agents must agree."""


class Seat:
    """Seat of one agent. `leave` is called when tasks were placed anew and this agent must follow."""

    def __init__(self, settings: AgentSettings) -> None:
        assert settings.seat is not None
        self.address: Address = settings.seat
        self.leave: Callable[[], None] = lambda: None
        self.reason: Reason | None = None
        """Reason of the command that made the newest placement, None where that is not known."""
        self.missing: set[Address] = set()
        """Seats that were to take a task in the placement of now, and did not answer when this agent told it."""
        self.file = file_digests(settings.cluster)
        """Digests of the own cluster file, as in a report."""
        self._settings = settings
        self._journal = SeatJournal(settings)
        self._trial = StartTrial(settings)
        self._accepting = asyncio.Lock()

    @property
    def placement(self) -> Placement:
        """The newest placement that this agent knows."""
        return self._journal.placement

    @property
    def task(self) -> Task | None:
        """Task that the seat holds in its newest placement."""
        return self.placement.task_of(self.address)

    def settings(self) -> AgentSettings | None:
        """Return the agent's settings for the task of this seat, None where it holds no task."""
        task = self.task
        if task is None:
            return None
        spec = placed_spec(self._settings.cluster, self.placement)
        return replace(self._settings, cluster=spec, task=task, start_reason=self.reason)

    async def accept(self, placement: Placement, reason: Reason, *, leaves: bool = True) -> None:
        """Write a placement down; with `leaves` also begin to follow it.

        Raises Overtaken for a placement older than the own, and JournalError where it cannot be written.
        """
        async with self._accepting:
            own = self.placement
            if own.is_newer(placement):
                raise Overtaken(f"{self.address} is in the placement of generation {own.generation}")
            if placement == own:
                return
            await self._journal.put(placement)
        self.reason = reason
        if placement.seats == own.seats:
            return
        _logger.info("placed anew (%s): this agent holds %s now", reason.text, self.task or "no task, and waits")
        if leaves:
            self.leave()

    async def report(self, *, tries: bool = False) -> SeatReport:
        """Return the state of the seat; with `tries` after a trial of whether it could start a task."""
        task = self.task
        trouble = await self._trouble() if tries else ""
        return SeatReport("" if task is None else str(task), self.placement.to_json(), trouble, self.file)

    async def _trouble(self) -> str:
        """Return why this seat could not start a task, empty where it could."""
        try:
            await self._journal.check()
        except JournalError as error:
            return str(error)
        return await self._trial.why_not() or await self._port_trouble()

    async def _port_trouble(self) -> str:
        """Return the process on the port of the task to be placed here; empty while the seat holds a task."""
        if self.task is not None:
            return ""
        port = seats_of(self._settings.cluster)[self.address].port
        problem = await asyncio.to_thread(port_problem, port)
        return f"port {port} is {problem}" if problem else ""
