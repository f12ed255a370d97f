"""Process of one or several agents: parts that its agents share exist once."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from tfscale.agent.process.passed_signals import ENDS_OF_TERMINAL, HAND_OVER, PASSED, STOPPING
from tfscale.agent.telemetry.gpu_collector import GpuCollector
from tfscale.core.errors import TfscaleError
from tfscale.core.records.host_sample import GpuSample

if TYPE_CHECKING:
    from tfscale.agent.metrics.agent_page import AgentPage

_STOP_LOOKS, _STOP_POLL = 100, 0.01
"""Looks, and seconds between them, whether a task stops at ctrl-Z. One that still runs has a handler for it, and the
agent goes on, too."""

_MOST_TOLD = 6
"""Tasks of which a service manager is told."""


class Life(Protocol):
    """Daemon of one agent, from its begin to its end."""

    def leave(self) -> None:
        """End the agent, and its task with it."""

    def hand_over(self) -> None:
        """End the agent, and leave its task to the next one."""

    def pass_on(self, number: int) -> None:
        """Give a signal to the agent's task."""

    def is_task_stopped(self) -> bool:
        """Return whether a signal has stopped the agent's task."""

    def summary(self) -> str:
        """Return what the agent or its task does, in words for a service manager."""


class NotBegun(TfscaleError):
    """A cancelled begin of one agent, because another agent of the process cannot begin."""


class OwnProcess:
    """Signals, begin, GPUs and exit status of the agents of one process."""

    def __init__(
        self,
        agents: int = 1,
        *,
        make_collector: Callable[[], GpuCollector] = GpuCollector,
        page: AgentPage | None = None,
    ) -> None:
        self.page = page
        """Page for Prometheus of all agents of the process, None without one."""
        self._missing = agents
        """Agents that are not ready yet."""
        self._decided = asyncio.Event()
        """Set once all are ready, or one cannot be."""
        self._may_begin = False
        self._make_collector = make_collector
        self._collector: GpuCollector | None = None
        self._lives: dict[Life, contextvars.Context] = {}
        """Context of each life, so that its lines of the log name its task."""
        self._failures: list[tuple[float, int]] = []
        """Time and status of each failure."""
        self._stopping: asyncio.Task[None] | None = None
        self._is_asked_to_end = False

    def is_asked_to_end(self) -> bool:
        """Return whether a signal has asked the process to end, also one that came when no agent lived."""
        return self._is_asked_to_end

    async def begins(self) -> bool:
        """Wait until all agents are ready, and return True; False where one cannot be."""
        await self._decided.wait()
        return self._may_begin

    def summary(self) -> str:
        """Return what the agents and their tasks do, in words for a service manager."""
        words = [life.summary() for life in self._lives]
        more = len(words) - _MOST_TOLD
        return "; ".join(words[:_MOST_TOLD]) + (f"; and {more} others" if more > 0 else "")

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
        """Status of the first failure, below 0 where a signal of that number ended the task; else 0."""
        return min(self._failures, default=(0.0, 0))[1]

    def gpus(self) -> tuple[GpuSample, ...]:
        """Return the newest samples of the host's GPUs, which one collector reads for all agents."""
        if self._collector is None:
            self._collector = self._make_collector()
            self._collector.start()
        return self._collector.latest()

    def _catch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._leave)
        loop.add_signal_handler(HAND_OVER, self._hand_over)
        # In the background of a terminal with `stty tostop` it may write: its task would not stop with it.
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        for number in PASSED:
            # What nohup or a shell has the agent ignore, the task ignores, too.
            if signal.getsignal(number) != signal.SIG_IGN:
                loop.add_signal_handler(number, self._pass_on, number)

    def _leave(self) -> None:
        self._is_asked_to_end = True
        for life, context in self._lives.items():
            context.run(life.leave)

    def _hand_over(self) -> None:
        self._is_asked_to_end |= not self._lives
        for life, context in self._lives.items():
            context.run(life.hand_over)

    def _pass_on(self, number: int) -> None:
        self._is_asked_to_end |= not self._lives and number in ENDS_OF_TERMINAL
        for life, context in self._lives.items():
            context.run(life.pass_on, number)
        if number in STOPPING and not self._lives:
            os.kill(os.getpid(), signal.SIGSTOP)
        elif number in STOPPING and self._stopping is None:
            self._stopping = asyncio.create_task(self._stop_with_tasks())

    async def _stop_with_tasks(self) -> None:
        """Stop this process once its tasks are stopped, so that the shell has its terminal again; SIGCONT ends that.

        A program may handle the signal, and end: then there is nothing to stop with.
        """
        for _ in range(_STOP_LOOKS):
            if any(life.is_task_stopped() for life in self._lives):
                os.kill(os.getpid(), signal.SIGSTOP)
                break
            await asyncio.sleep(_STOP_POLL)
        self._stopping = None
