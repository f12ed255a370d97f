"""The agent's own task, brought to the generation that a command, or the agent's start or end, wants."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable

from tfscale.agent.cluster.gang import GangError, Leaving, Overtaken, Verb
from tfscale.agent.cluster.journal import Journal, JournalError
from tfscale.agent.cluster.recovery_counts import RecoveryCounts
from tfscale.agent.cluster.start_trial import StartTrial
from tfscale.agent.preflight.task_port import port_problem, served_port
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision.shim_process import Launch
from tfscale.agent.supervision.supervisor import Supervisor
from tfscale.agent.supervision.task_environment import report_socket, task_environment
from tfscale.agent.telemetry.probe_reports import ProbeReports
from tfscale.core.errors import TfscaleError
from tfscale.core.records.task_status import Reason, TaskStatus

_logger = logging.getLogger(__name__)
_MOST_AHEAD = 1 << 20
"""Generations by which a request may be ahead of this agent: each generation is one command to the cluster."""


def _never(_why: str) -> None:
    """Do nothing: the own task can always be reached."""


class LocalTask:
    """The own task as a gang.GangMember: carries out one request at a time.

    `free_port` is called before the task starts. `on_over` is called when the task does not run and no start follows: a
    command has ended it for good, or, where the argument is true, its start has failed.
    """

    def __init__(
        self,
        settings: AgentSettings,
        journal: Journal,
        supervisor: Supervisor,
        reports: ProbeReports,
        on_over: Callable[[bool], None] = lambda _: None,
        free_port: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._journal = journal
        self._supervisor = supervisor
        self._reports = reports
        self._on_over = on_over
        self._free_port = free_port
        self._lock = asyncio.Lock()
        self._trial = StartTrial(settings)
        self._commanded = False
        """True once the lead has sent a request."""
        self._leaving = False
        self._unstarted_since: float | None = None
        """Time on the loop's clock since which a start is awaited that a command has announced, None for none."""
        self.socket = ""
        """Path of the socket on which the task reports: the adopted task's, else a new one."""

    async def adopt(self) -> TaskStatus:
        """Adopt the task of the last agent; after a clean end, only a shim left by mistake."""
        entry = self._journal.entry
        wanted = (0, 0) if entry.drained else (entry.task_generation, entry.attempt)
        status = await self._supervisor.adopt(*wanted, any_command=self._settings.adopt)
        if self._supervisor.alive:
            newest = max(entry.generation, status.generation)
            await self._journal.update(generation=newest, task_generation=status.generation, attempt=status.attempt)
            self._reports.begin(status.generation, status.attempt)
        elif entry.commanded > entry.task_generation and not (entry.drained or entry.ended_by):
            self._unstarted_since = asyncio.get_running_loop().time()
        running_socket = entry.socket if self._supervisor.alive else None
        self.socket = running_socket or report_socket(self._settings)
        return status

    async def check(self, generation: int, is_start: bool) -> None:
        """Raise a TfscaleError if a call of `fence` would fail, or of `run` where `is_start`; change nothing."""
        self._refuse(generation)
        await self._journal.check()
        if is_start and (why := await self._trial.why_not()):
            raise GangError(f"{self._settings.task} {why}")
        if is_start and not self._supervisor.alive and (problem := await self._port_problem()):
            address = self._settings.cluster.tasks[self._settings.task]
            raise GangError(f"{self._settings.task}: its port {address} is {problem}")

    async def _port_problem(self) -> str:
        """Return why the task's port cannot be served, empty if it can."""
        self._free_port()
        port = served_port(self._settings.cluster, self._settings.task)
        return "" if port is None else await asyncio.to_thread(port_problem, port)

    async def fence(
        self,
        generation: int,
        reason: Reason,
        _unreachable: Callable[[str], None] = _never,
        verb: Verb | None = None,
    ) -> TaskStatus:
        """End the task if it was started in an older generation.

        Raises Overtaken if `generation` is older than the newest accepted one, or that of a stop and `verb` starts.
        """
        self._commanded = True
        async with self._lock:
            is_end = verb is not None and verb.is_end
            if not is_end:
                self._refuse_after_stop(generation)
            await self._accept(generation)
            if self._supervisor.status.generation < generation:
                await self._journal.update(ended_by=verb if is_end else None)
                # Before the stop, in which this request ends if the agent dies that has sent it.
                self._unstarted_since = None if is_end else asyncio.get_running_loop().time()
                await self._supervisor.stop(reason.text)
                self._on_over(False) if is_end else None
            return self._supervisor.status

    async def run(self, generation: int, reason: Reason, _unreachable: Callable[[str], None] = _never) -> TaskStatus:
        """Start the task unless it was started in this generation already.

        Raises Overtaken if `generation` is older than the newest accepted one, or that of a stop; GangError or
        SupervisionError if the task cannot be started.
        """
        self._commanded = True
        async with self._lock:
            self._refuse(generation)
            self._refuse_after_stop(generation)
            if self._supervisor.status.generation == generation:
                # It may be starting: gRPC gives a request up when the lead's agent dies that has sent it.
                return await self._supervisor.started()
            async with self._starting():
                await self._accept(generation)
                await self._supervisor.stop(reason.text)
                return await self._start(generation, reason)

    async def join(self, generation: int, reason: Reason) -> None:
        """Start the task at the agent's own cold start, unless the lead has sent a request in the meantime."""
        async with self._lock, self._starting():
            if not self._commanded and not self._supervisor.alive:
                await self._journal.update(generation=generation)
                await self._start(generation, reason)

    @contextlib.asynccontextmanager
    async def _starting(self) -> AsyncIterator[None]:
        """Tell where a start has failed and leaves no task that runs."""
        try:
            yield
        except TfscaleError:
            if not self._supervisor.alive:
                self._on_over(True)
            raise

    def unstarted(self) -> float | None:
        """Return the seconds for which a start is awaited that a command has announced; None where none is."""
        since = self._unstarted_since
        return None if since is None else asyncio.get_running_loop().time() - since

    async def learn(self, counts: RecoveryCounts) -> None:
        """Keep counts that another agent has sent, where they are newer. Raises JournalError."""
        await self._journal.count(lambda own: own.with_other(counts))

    def add_to_reason(self, words: str) -> None:
        """Add to the reason in the task's status what an order without a change of state has done."""
        self._supervisor.add_to_reason(words)

    async def generation(self) -> int:
        return self._journal.entry.generation

    async def status(self) -> TaskStatus:
        return self._supervisor.status

    def hand_over(self) -> None:
        """Leave the task to the next agent, including a start that has not begun."""
        self._leaving = True

    async def drain(self, reason: str = "its agent was asked to end") -> None:
        """End the task for good, and mark in the journal that the next agent starts cold."""
        self._leaving = True
        async with self._lock:  # a start under way is over then, or has not begun
            await self._supervisor.stop(reason)
        try:
            await self._journal.update(drained=True)
        except JournalError as error:
            _logger.error("%s; give --restart to have its next agent start it again", error)

    async def _accept(self, generation: int) -> None:
        self._refuse(generation)
        await self._journal.update(generation=generation, commanded=generation)

    def _refuse_after_stop(self, generation: int) -> None:
        """Raise Overtaken where a stop had this number: two leads for a moment may give it to two commands."""
        entry = self._journal.entry
        if entry.ended_by and entry.commanded == generation:
            raise Overtaken(f"{self._settings.task} was stopped in generation {generation}, and is not started in it")

    def _refuse(self, generation: int) -> None:
        newest = self._journal.entry.generation
        if generation < newest:
            raise Overtaken(f"{self._settings.task} is in generation {newest}, the request is for {generation}")
        if not 0 < generation <= newest + _MOST_AHEAD:
            raise GangError(
                f"{self._settings.task} is in generation {newest}, and goes to none above {newest + _MOST_AHEAD}; "
                f"the request is for {generation}"
            )

    async def _start(self, generation: int, reason: Reason) -> TaskStatus:
        if self._leaving:
            raise Leaving(f"the agent of {self._settings.task} is ending: start it again")
        entry = self._journal.entry
        attempt = entry.attempt + 1 if entry.task_generation == generation else 1
        await self._journal.update(
            task_generation=generation, attempt=attempt, socket=self.socket, drained=False, ended_by=None
        )
        await self._journal.give_room()
        self._unstarted_since = None
        self._reports.begin(generation, attempt)
        self._free_port()
        environment = task_environment(self._settings, generation, attempt, self.socket)
        return await self._supervisor.start(Launch(generation, attempt, environment, reason))
