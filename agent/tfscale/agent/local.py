"""The agent's own task, as commands and the agent's own start and end see it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tfscale.agent.gang import GangError, Overtaken
from tfscale.agent.journal import Journal
from tfscale.agent.launch import report_socket, task_environment
from tfscale.agent.reports import Reports
from tfscale.agent.settings import Settings
from tfscale.agent.supervisor import Launch, Supervisor
from tfscale.core.records import TaskStatus


def _nobody(_why: str) -> None:
    """The own task is always within reach."""


class LocalTask:
    """Brings the own task where a generation wants it, one request at a time. A gang.Member."""

    def __init__(self, settings: Settings, journal: Journal, supervisor: Supervisor, reports: Reports) -> None:
        self._settings = settings
        self._journal = journal
        self._supervisor = supervisor
        self._reports = reports
        self._one = asyncio.Lock()
        self._commanded = False
        self._leaving = False
        self.socket = ""
        """Where the task reports: that of the adopted task, else a new one."""

    async def adopt(self) -> TaskStatus:
        """Take over what the last agent left. After a clean end that is nothing but a shim that should not be there."""
        entry = self._journal.entry
        wanted = (0, 0) if entry.drained else (entry.task_generation, entry.attempt)
        status = await self._supervisor.adopt(*wanted)
        if self._supervisor.alive:
            newest = max(entry.generation, status.generation)
            self._journal.update(generation=newest, task_generation=status.generation, attempt=status.attempt)
            self._reports.begin(status.generation, status.attempt)
        kept = entry.socket if self._supervisor.alive else None
        self.socket = kept or report_socket(self._settings)
        return status

    async def fence(self, generation: int, reason: str, _unreachable: Callable[[str], None] = _nobody) -> TaskStatus:
        """End the task if it was started in an older generation. Raises Overtaken when `generation` itself is older."""
        self._commanded = True
        async with self._one:
            self._obey(generation)
            if self._supervisor.alive and self._supervisor.status.generation < generation:
                await self._supervisor.stop(reason)
            return self._supervisor.status

    async def run(self, generation: int, reason: str, _unreachable: Callable[[str], None] = _nobody) -> TaskStatus:
        """Start the task unless it was started in this generation already.

        Raises Overtaken when `generation` is older than one obeyed, GangError or SupervisionError when it cannot be.
        """
        self._commanded = True
        async with self._one:
            self._obey(generation)
            if self._supervisor.status.generation == generation:
                return self._supervisor.status
            await self._supervisor.stop(reason)
            return await self._start(generation, reason)

    async def join(self, generation: int, reason: str) -> None:
        """The own cold start in the cluster's generation, unless the lead has taken over in the meantime."""
        async with self._one:
            if not self._commanded and not self._supervisor.alive:
                self._journal.update(generation=generation)
                await self._start(generation, reason)

    async def generation(self) -> int:
        return self._journal.entry.generation

    async def status(self) -> TaskStatus:
        return self._supervisor.status

    async def drain(self) -> None:
        """End the task for good and leave the mark that makes the next agent begin anew."""
        self._leaving = True
        await self._supervisor.stop("its agent was told to end")
        self._journal.update(drained=True)

    def _obey(self, generation: int) -> None:
        known = self._journal.entry.generation
        if generation < known:
            raise Overtaken(f"{self._settings.task} is in generation {known}, the request is for {generation}")
        self._journal.update(generation=generation)

    async def _start(self, generation: int, reason: str) -> TaskStatus:
        if self._leaving:
            raise GangError(f"the agent of {self._settings.task} is ending: start it again")
        entry = self._journal.entry
        attempt = entry.attempt + 1 if entry.task_generation == generation else 1
        self._journal.update(task_generation=generation, attempt=attempt, socket=self.socket, drained=False)
        self._reports.begin(generation, attempt)
        environment = task_environment(self._settings, generation, attempt, self.socket)
        return await self._supervisor.start(Launch(generation, attempt, environment, reason))
