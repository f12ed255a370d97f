"""Examination of a task's host for `tfscale-console doctor`."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
from tfscale.agent.file_thread import DiskHangs, FileThread
from tfscale.agent.preflight.program_facts import program_facts
from tfscale.agent.preflight.task_port import Sink, port_problem, served_port
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.local.gpu_shares import VISIBLE_GPUS
from tfscale.core.preflight.examination import Examination, FolderSpace, ResolvedName
from tfscale.core.records.probe_status import ProbeStatus

_NAMES_PATIENCE = 5.0
"""Seconds for all names of the cluster's hosts."""
_NAMES_AT_ONCE = 8
MOST_SECONDS = 180.0
"""Seconds for which an agent listens in its task's place: a round through 1,000 answering agents takes 13 s, a round
through many silent agents two minutes."""


class Examiner:
    """Examination of the agent's own host, one request after the other."""

    def __init__(
        self,
        settings: AgentSettings,
        task_lives: Callable[[], bool],
        gpus: Callable[[], int],
        probe: Callable[[], ProbeStatus | None],
    ) -> None:
        self._settings = settings
        self._task_lives = task_lives
        self._gpus = gpus
        self._probe = probe
        self._files = FileThread()
        self._turn = asyncio.Lock()
        self._in_place: Sink | None = None
        """Listener in the task's place, for all askers."""
        self._askers = 0

    @contextlib.asynccontextmanager
    async def examine(self, receives: bool) -> AsyncIterator[Examination]:
        """Examine the host, and listen in the place of an ended task until the context ends."""
        own: Sink | None = None
        self._askers += 1
        try:
            async with self._turn:
                lives, problem = self._task_lives(), await self._stand_in()
                if receives and self._in_place is None:
                    own, _ = await asyncio.to_thread(_listen, 0)
                sink = self._in_place or own
                found = await self._facts(lives, 0 if sink is None else sink.port, problem)
            yield found
        finally:
            self._askers -= 1
            _close(own)
            if self._askers == 0:
                self.vacate()

    def vacate(self) -> None:
        """Free the task's port for the task's start."""
        sink, self._in_place = self._in_place, None
        _close(sink)

    async def _stand_in(self) -> str:
        """Listen on the port of an ended task; return the problem where the port cannot be had."""
        port = served_port(self._settings.cluster, self._settings.task)
        if port is None or self._task_lives() or self._in_place is not None:
            return ""
        sink, problem = await asyncio.to_thread(_listen, port)
        if self._task_lives():  # it has been started in this moment
            _close(sink)
            return ""
        self._in_place = sink
        return problem

    async def _facts(self, lives: bool, port: int, problem: str) -> Examination:
        settings, probe = self._settings, self._probe()
        program = settings.cluster.program
        environment = {**os.environ, **program.environment}
        memory = psutil.virtual_memory()
        folder = settings.working_folder / (program.directory or "")
        working, state, names, facts = await asyncio.gather(
            self._disk("working folder", folder),
            self._disk("state folder", settings.files.folder),
            resolved_names(settings.cluster),
            asyncio.to_thread(program_facts, settings.command, program.directory, environment),
        )
        devices = None if probe is None else probe.devices
        return Examination(
            task_lives=lives,
            port=port,
            port_problem=problem,
            disks=(working, state),
            memory_available=memory.available,
            memory_total=memory.total,
            names=names,
            program=facts,
            gpus=self._gpus(),
            gpus_seen=None if devices is None else devices.gpus_found,
            visible_devices=environment.get(VISIBLE_GPUS) if settings.visible_gpus is None else settings.visible_gpus,
            strategy=None if probe is None else probe.strategy,
        )

    async def _disk(self, purpose: str, path: Path) -> FolderSpace:
        try:
            return await self._files.call(lambda: _disk(purpose, path))
        except DiskHangs as error:
            return FolderSpace(purpose, str(path), 0, 0, str(error))


def _disk(purpose: str, path: Path) -> FolderSpace:
    try:
        room = os.statvfs(path)
    except OSError as error:
        return FolderSpace(purpose, str(path), 0, 0, error.strerror or "")
    problem = "" if os.access(path, os.W_OK) else "not writable"
    return FolderSpace(purpose, str(path), room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize, problem)


def _listen(port: int) -> tuple[Sink | None, str]:
    """Return a listener on a port, else why the port cannot be served."""
    try:
        return Sink(port), ""
    except OSError as error:
        return None, port_problem(port) or (error.strerror or "")


def _close(sink: Sink | None) -> None:
    if sink is not None:
        sink.close()


async def resolved_names(spec: ClusterSpec) -> tuple[ResolvedName, ...]:
    """Resolve all host names of the cluster."""
    hosts = dict.fromkeys(at.host for at in (*spec.tasks.values(), *spec.agents.values()) if not _is_literal(at.host))
    limit, deadline = asyncio.Semaphore(_NAMES_AT_ONCE), asyncio.get_running_loop().time() + _NAMES_PATIENCE

    async def resolve(name: str) -> ResolvedName:
        try:
            async with asyncio.timeout_at(deadline), limit:
                found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except TimeoutError:
            return ResolvedName(name, (), f"no answer in {_NAMES_PATIENCE:g} s")
        except OSError as error:
            return ResolvedName(name, (), error.strerror or str(error))
        return ResolvedName(name, tuple(dict.fromkeys(str(place[0]) for *_, place in found)))

    return tuple(await asyncio.gather(*map(resolve, hosts)))


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
