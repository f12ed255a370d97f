"""A simulated cluster before a console, whose time stands still until it is told to go on."""

from __future__ import annotations

import asyncio
from typing import Any

from textual.pilot import Pilot
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import SecondPassed
from tfscale.console.engine.inbox import Inbox
from tfscale.console.engine.state_factory import states
from tfscale.console.sources.simulation.simulated import PLAIN, Shape, simulated_spec
from tfscale.console.sources.simulation.simulated_cluster import SimulatedCluster
from tfscale.console.sources.simulation.simulated_commands import SimulatedCommands
from tfscale.console.sources.simulation.simulated_faults import Fault
from tfscale.console.tui.app import ConsoleApp

BEGIN = 1_800_000_000.0


class SteppedSimulation:
    """Source of a simulation that steps by seconds."""

    is_live = True

    def __init__(self, workers: int, *faults: str, shape: Shape = PLAIN) -> None:
        self.spec = simulated_spec(workers, shape)
        self.cluster = SimulatedCluster(self.spec, tuple(map(Fault.parse, faults)), 10.0, 1, stages=shape.stages)
        self._arrivals = self.cluster.arrivals(BEGIN)
        self._next = next(self._arrivals)
        self._second = 0
        self._inbox: Inbox | None = None
        self._passed = asyncio.Event()

    def app(self) -> ConsoleApp:
        """Return a console before it, whose restarts take its time."""
        commands = SimulatedCommands(self.cluster, self.now, self.sleep)
        return ConsoleApp(Engine(self, states(self.spec)), commands)

    def now(self) -> float:
        return BEGIN + self._second

    async def run(self, inbox: Inbox) -> None:
        self._inbox = inbox
        await asyncio.Event().wait()

    async def step(self, pilot: Pilot[Any], seconds: int = 1) -> None:
        """Let seconds pass; the console has shown each before the next one."""
        app = pilot.app
        assert isinstance(app, ConsoleApp)
        for _ in range(seconds):
            while self._inbox is None:
                await pilot.pause(0.02)
            self._second += 1
            while self._next.at < self.now():
                self._inbox.put(self._next)
                self._next = next(self._arrivals)
            self._inbox.put(SecondPassed(self.now()))
            self._passed.set()
            self._passed.clear()
            while app._shown is None or app._shown.at < self.now():
                await pilot.pause(0.02)

    async def sleep(self, seconds: float) -> None:
        """Wait until so many of its seconds have passed."""
        until = self.now() + seconds
        while self.now() < until:
            await self._passed.wait()
