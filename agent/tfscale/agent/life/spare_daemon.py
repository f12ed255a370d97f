"""Life of an agent that holds no task: it waits until one is placed there."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Sequence

import grpc.aio
from tfscale.agent.certificates.certificate_watch import CertificateWatch
from tfscale.agent.life.own_process import OwnProcess
from tfscale.agent.life.self_description import local_agent
from tfscale.agent.placement.seat import Seat
from tfscale.agent.placement.voting import Voting
from tfscale.agent.process.passed_signals import ENDS_OF_TERMINAL
from tfscale.agent.serving.agent_server import AgentServer
from tfscale.agent.serving.consensus_service import serve_votes
from tfscale.agent.serving.placement_service import PlacementService, serve_placements
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.local.local_agents import Announcement, announced
from tfscale.core.cluster.task_identity import TaskIdentity

_logger = logging.getLogger(__name__)
_LOOK = 1.0
"""Seconds between two looks at the own files."""


class SpareDaemon:
    """Agent of a seat that holds no task. `run` is its whole life."""

    def __init__(self, settings: AgentSettings, process: OwnProcess, seat: Seat, voting: Voting) -> None:
        self._settings, self._process, self._seat, self._voting = settings, process, seat, voting
        self.identity = TaskIdentity(settings.run, "", settings.identity.fingerprint)
        self._token = "" if settings.insecure_loopback else secrets.token_urlsafe()
        self._certificates = voting.opener.certificates
        self._certificate_watch = CertificateWatch(self._certificates)
        self._leave = asyncio.Event()
        self.health_names: Sequence[str] = ("",)
        self.moves = False
        """True where it has ended because a task was placed there."""
        seat.leave = self._leave_for_task

    async def run(self) -> int:
        """Wait for a task, or for the signal to end; return the exit status. Raises TfscaleError if it cannot serve."""
        with self._process.living(self):
            await self._run()
        return 0

    async def _run(self) -> None:
        settings = self._settings
        audit = settings.files.folder / "spare.audit.jsonl"
        server = AgentServer(settings, self, self._certificates, self._token, audit)
        with announced(local_agent(settings, "spare", time.time(), self._token), os.environ) as announcement:
            try:
                await self._process.ready()
            except BaseException:
                await server.stop()
                raise
            await server.start()
            self._voting.start()
            _logger.info("serving %s; run %s: holds no task, and waits for one", settings.listen, settings.run)
            ticks = asyncio.create_task(self._tick(announcement))
            await self._leave.wait()
            ticks.cancel()
        await server.stop()
        self._certificate_watch.stop()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Add the services of placements and votes to the server; a spare has no task about which others could ask."""
        serve_placements(server, PlacementService(self._settings.cluster, self._seat))
        serve_votes(server, self._voting)

    def leave(self) -> None:
        """End the agent."""
        _logger.info("asked to end")
        self.moves = False
        self._leave.set()

    hand_over = leave
    """It has no task to leave to the next agent."""

    def pass_on(self, number: int) -> None:
        """End the agent where the signal asks for that: it has no task."""
        if number in ENDS_OF_TERMINAL:
            self.leave()

    def summary(self) -> str:
        """Return what the agent does, in words for a service manager."""
        return f"the spare at {self._settings.listen} waits for a task"

    def is_task_stopped(self) -> bool:
        """Return False: there is no task."""
        return False

    def _leave_for_task(self) -> None:
        if not self._leave.is_set():
            self.moves = True
            self._leave.set()

    async def _tick(self, announcement: Announcement) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            announcement.keep()
            self._certificate_watch.look()
