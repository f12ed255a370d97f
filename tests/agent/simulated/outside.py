"""Outside of simulated agents: time, disks, network and processes in the place of the real ones, for one simulation."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from simulated.host_lives import LIFE, NOON, Clock, HostsLoop
from simulated.simulated_calls import Channel, Network, Server
from simulated.simulated_tasks import Processes, SimulatedSupervisor
from tfscale.agent import file_thread, kept_file
from tfscale.agent.cluster import local_task, peers, start_trial
from tfscale.agent.file_thread import FileThread
from tfscale.agent.life import agent_parts, daemon, placed_agent, spare_daemon
from tfscale.agent.life.own_process import OwnProcess
from tfscale.agent.placement import seat, voting
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.local.private_folder import make_private
from tfscale.core.cluster.security import ChannelOpener
from tfscale.core.logs import SERVED

_SLOWEST_DISK = 0.02
"""Seconds for a call that touches files."""


class Disks:
    """Disks of all hosts, which take a while, and of which some are full."""

    def __init__(self, chance: random.Random) -> None:
        self.random = chance
        self.full: set[str] = set()

    async def call(self, files: Any, function: Callable[[], Any], discard: Callable[[Any], None]) -> Any:
        """Call a function that touches files, after all that the same thread was given before.

        Where the agent is killed meanwhile, the disk has either the old content or the new one.
        """
        life, now = LIFE.get(), asyncio.get_running_loop().time()
        files.free = max(now, getattr(files, "free", 0.0)) + self.random.uniform(0, _SLOWEST_DISK)
        try:
            await asyncio.sleep(files.free - now)
        except asyncio.CancelledError:
            if life is None or life.is_alive or self.random.random() < 0.5:
                with contextlib.suppress(OSError):
                    discard(function())
            raise
        return function()

    def check_room(self) -> None:
        """Raise OSError where the disk of the host is full."""
        life = LIFE.get()
        if life is not None and life.host in self.full:
            raise OSError(28, os.strerror(28))


class QuietProcess(OwnProcess):
    """Process of an agent without signals and GPUs."""

    def _catch_signals(self) -> None:
        pass


class _Nothing:
    """Part of an agent that measures: it does nothing here."""

    host, gpus, heard, status, path = None, (), (), None, "report.sock"

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class _NoReports(_Nothing):
    async def start(self) -> None:
        pass

    stop = keep = start


@dataclass
class Outside:
    """Whole outside of the agents of a simulation."""

    loop: HostsLoop
    random: random.Random
    network: Network
    disks: Disks
    processes: Processes

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Have this outside in the place of the real one."""
        state = random.getstate()
        random.seed(self.random.random())
        with ExitStack() as stack:
            for each in _patches(self):
                stack.enter_context(each)
            try:
                yield
            finally:
                random.setstate(state)


def _patches(outside: Outside) -> list[AbstractContextManager[Any]]:
    network, disks, true, real = outside.network, outside.disks, Clock(), time.time
    opened = kept_file.open_private

    def unix_time() -> float:
        if asyncio._get_running_loop() is None:  # a thread that an earlier test has left
            return real()
        return (true if (life := LIFE.get()) is None else life.clock).unix_time()

    async def call(files: FileThread, function: Callable[[], Any], discard: Any = file_thread._keep) -> Any:
        return await disks.call(files, function, discard)

    def open_file(path: str, flags: int) -> int:
        disks.check_room()
        return opened(path, flags)

    async def listens(*_: Any, **__: Any) -> bool:
        return True  # the channel finds out

    def channel(_opener: ChannelOpener, address: Address, **_: bool) -> Any:
        life = LIFE.get()
        return Channel(network, "" if life is None else life.host, str(address))

    return [
        patch.object(time, "time", unix_time),
        patch.object(time, "monotonic", lambda: unix_time() - NOON),
        patch.object(time, "clock_gettime", lambda _: unix_time() - NOON),
        patch.object(os, "fsync", lambda _: None),
        patch.object(FileThread, "call", call),
        patch.object(FileThread, "finish", lambda _, function: function()),
        patch.object(kept_file, "open_private", open_file),
        patch.object(ChannelOpener, "open", channel),
        patch.object(peers.Peer, "_listens", listens),
        patch.object(Server, "network", network, create=True),
        patch.object(SimulatedSupervisor, "processes", outside.processes, create=True),
        patch.object(voting, "SystemRandom", lambda: random.Random(outside.random.getrandbits(64))),
        patch.object(placed_agent, "sole_agent", _own_folder),
        patch.object(start_trial.StartTrial, "_tried", lambda _: None),
        *(patch.object(module, "Supervisor", SimulatedSupervisor) for module in (agent_parts, placed_agent)),
        *(patch.object(module, "port_problem", lambda _: "") for module in (seat, local_task)),
        *(patch.object(module, "AgentServer", Server) for module in (daemon, spare_daemon)),
        *(patch.object(module, "announced", lambda *_: nullcontext(_Nothing())) for module in (daemon, spare_daemon)),
        *(patch.object(agent_parts, name, _Nothing) for name in ("Sampler", "Greetings", "AbsentProbe")),
        patch.object(daemon, "ReportServer", _NoReports),
    ]


def _own_folder(settings: AgentSettings) -> AbstractContextManager[None]:
    make_private(settings.files.folder)
    return nullcontext()


class Log(logging.Handler):
    """Log of all agents; each exception of which it tells is noted."""

    def __init__(self, loop: HostsLoop, note: Callable[[str], None], tell: Callable[[str], None] | None) -> None:
        super().__init__(logging.ERROR if tell is None else logging.INFO)
        self._loop, self._note, self._tell = loop, note, tell

    def emit(self, record: logging.LogRecord) -> None:
        life = LIFE.get()
        if (record.exc_info or "trying again in a second" in record.msg) and life is not None and life.is_alive:
            self._note(f"{life.host}: {record.getMessage()} {record.exc_info}")
        if self._tell is not None:
            where = "" if life is None else f"{life.host}{'' if life.is_alive else ' (dead)'}"
            served = SERVED.get()
            self._tell(f"{self._loop.time():8.3f} {where} {served}: {record.getMessage()}")
