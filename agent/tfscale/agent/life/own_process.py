"""Process of one or several agents: parts that its agents share exist once."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import signal
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from tfscale.agent.life.hand_over import HAND_OVER
from tfscale.agent.telemetry.gpu_collector import GpuCollector
from tfscale.core.errors import TfscaleError
from tfscale.core.records.host_sample import GpuSample


class Life(Protocol):
    """Daemon of one agent, from its begin to its end."""

    def leave(self) -> None:
        """End the agent, and its task with it."""

    def hand_over(self) -> None:
        """End the agent, and leave its task to the next one."""


class NotBegun(TfscaleError):
    """A cancelled begin of one agent, because another agent of the process cannot begin."""


class OwnProcess:
    """Signals, begin, GPUs and exit status of the agents of one process.

    With `ends_with_terminal` the signals that end a program with its terminal are for the agents, too.
    """

    def __init__(
        self,
        agents: int = 1,
        *,
        ends_with_terminal: bool = False,
        make_collector: Callable[[], GpuCollector] = GpuCollector,
    ) -> None:
        self._missing = agents
        """Agents that are not ready yet."""
        self._decided = asyncio.Event()
        """Set once all are ready, or one cannot be."""
        self._may_begin = False
        self._ends_with_terminal = ends_with_terminal
        self._make_collector = make_collector
        self._collector: GpuCollector | None = None
        self._lives: dict[Life, contextvars.Context] = {}
        """Context of each life, so that its lines of the log name its task."""
        self._failures: list[tuple[float, int]] = []
        """Time and status of each failure."""

    @contextlib.contextmanager
    def living(self, life: Life) -> Iterator[None]:
        """Hand signals to this life, too, for as long as the block lasts."""
        self._lives[life] = contextvars.copy_context()
        try:
            yield
        finally:
            del self._lives[life]
            if not self._lives and self._collector is not None:
                self._collector.stop()
                self._collector = None

    async def ready(self) -> None:
        """Wait until every agent of the process could start its task; from then on signals are for the agents.

        Before that, signals end the process, which has started nothing. Raises NotBegun where another agent cannot
        begin.
        """
        self._missing -= 1
        if self._missing == 0:
            self._may_begin = True
            self._decided.set()
        await self._decided.wait()
        if not self._may_begin:
            raise NotBegun("another agent of the same process cannot start")
        self._catch_signals()

    def fail(self, status: int) -> None:
        """Count an agent that has ended with an error; if not all agents are ready, none begins."""
        self.ended(status, time.time())
        self._decided.set()

    def ended(self, status: int, at: float) -> None:
        """Count an agent that has ended with its task; `at` is the time of the task's end."""
        if status:
            self._failures.append((at, status))

    @property
    def exit_status(self) -> int:
        """Status of the first failure, else 0."""
        return min(self._failures, default=(0.0, 0))[1]

    def gpus(self) -> tuple[GpuSample, ...]:
        """Return the newest samples of the host's GPUs, which one collector reads for all agents."""
        if self._collector is None:
            self._collector = self._make_collector()
            self._collector.start()
        return self._collector.latest()

    def _catch_signals(self) -> None:
        numbers = [signal.SIGTERM, signal.SIGINT]
        if self._ends_with_terminal:
            # It stands for its task, which would end with its terminal, unless nohup has said otherwise.
            numbers += [each for each in (signal.SIGHUP, signal.SIGQUIT) if signal.getsignal(each) != signal.SIG_IGN]
        for number in numbers:
            asyncio.get_running_loop().add_signal_handler(number, self._leave)
        asyncio.get_running_loop().add_signal_handler(HAND_OVER, self._hand_over)

    def _leave(self) -> None:
        for life, context in self._lives.items():
            context.run(life.leave)

    def _hand_over(self) -> None:
        for life, context in self._lives.items():
            context.run(life.hand_over)
