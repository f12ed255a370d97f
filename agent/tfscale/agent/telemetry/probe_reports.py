"""Reports of the probe in the training process, over a Unix socket: one connection for each attempt, checked.

They are read when a frame is made: to wake the agent for each report would take that time from the training, too
(docs/reference/cost.md).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import aclosing
from dataclasses import replace

from tfscale.agent import wire
from tfscale.agent.on_demand.profile_requests import Profiler
from tfscale.agent.on_demand.stack_requests import StackListener
from tfscale.agent.telemetry.probe_connection import ProbeConnection
from tfscale.core.cluster.task import Task
from tfscale.core.errors import TfscaleError
from tfscale.core.records import (
    SCHEMA_VERSION,
    Activity,
    ActivityKind,
    Collective,
    Coordinator,
    ProbeState,
    ProbeStatus,
    Training,
)
from tfscale.core.wire.convert import WireError
from tfscale.core.wire.framing import FramingError

_logger = logging.getLogger(__name__)
_WAITING = 10_000
"""Batches kept for the next frame; when there are more, the oldest are dropped."""


class Refusal(TfscaleError):
    """A process whose reports are not accepted."""


class ProbeReports:
    """Collection of the reports of an attempt's one reporter; `take_steps` empties it."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._attempt: tuple[int, int] = (0, 0)
        self._connections: dict[ProbeConnection, asyncio.Task[None] | None] = {}
        """Connections, each with the job that sends it orders once its hello is accepted."""
        self._reporter: ProbeConnection | None = None
        self.listener: StackListener | None = None
        """The process that reports, where it can be asked for its stacks."""
        self.profiler = Profiler()
        self._steps: list[wire.EncodedSteps] = []
        self.probe: ProbeStatus | None = None
        self.collective: Collective | None = None
        self.training: Training | None = None
        self.coordinator: Coordinator | None = None
        self._activities: dict[tuple[ActivityKind, float], Activity] = {}
        self.strategy: str | None = None
        """The newest strategy that any attempt has reported: the program stays the same."""
        self._checkpoint: float | None = None

    def begin(self, generation: int, attempt: int) -> None:
        """Expect another attempt; reports of an earlier one are refused from now on."""
        self.hear()
        if (generation, attempt) != self._attempt:
            self._attempt = (generation, attempt)
            self._reporter = self.listener = self.probe = self.collective = self.training = None
            self.coordinator = None
            self._activities = {}

    def take_steps(self) -> tuple[wire.EncodedSteps, ...]:
        """Return the batches since the last call, oldest first."""
        steps, self._steps = self._steps, []
        return tuple(steps)

    def take_activities(self) -> tuple[Activity, ...]:
        """Return the activities that have ended since the last call or still last, oldest first."""
        taken = tuple(self._activities.values())
        self._activities = {key: activity for key, activity in self._activities.items() if activity.end is None}
        return taken

    def accept(self, process: socket.socket) -> None:
        """Read a new connection: at once until its hello is accepted, then by `hear`."""
        connection = ProbeConnection(process)
        self._connections[connection] = None
        asyncio.get_running_loop().add_reader(connection, self._hear, connection)

    def hear(self) -> None:
        """Read the reports that came since the last call."""
        for connection in tuple(self._connections):
            self._hear(connection)

    def close(self) -> None:
        """Read the reports that have come, and close all connections."""
        self.hear()
        for connection in tuple(self._connections):
            self._let_go(connection)

    def _hear(self, connection: ProbeConnection) -> None:
        try:
            for message in connection.messages():
                report, steps = wire.read_report(message)
                if self._reporter is not connection:
                    self._greet(connection, self._admitted(report.hello))
                self._collect(report, steps)
        except (Refusal, FramingError, WireError) as error:
            _logger.warning("refused the reports of a process: %s", error)
            connection.reply(wire.refusal_reply(str(error)))
            self._let_go(connection)
        else:
            if connection.is_over:
                self._let_go(connection)

    def _greet(self, connection: ProbeConnection, hello: wire.Hello) -> None:
        asyncio.get_running_loop().remove_reader(connection)
        self._reporter = connection
        self.listener = _listener(hello)
        _logger.info("process %d reports", hello.pid)
        connection.reply(wire.acceptance_reply())
        self._connections[connection] = asyncio.create_task(self._give_orders(connection))

    def _let_go(self, connection: ProbeConnection) -> None:
        orders = self._connections.pop(connection)
        if orders is None:
            asyncio.get_running_loop().remove_reader(connection)
        else:
            orders.cancel()
        if self._reporter is connection:
            _logger.info("the training process has disconnected")
            self._reporter = self.listener = None
        connection.close()

    async def _give_orders(self, connection: ProbeConnection) -> None:
        async with aclosing(self.profiler.listen()) as orders:
            async for order in orders:
                connection.reply(wire.order_reply(order))

    def _admitted(self, hello: wire.Hello | None) -> wire.Hello:
        """Return the hello if it is of the attempt that runs. Raises Refusal."""
        if hello is None:
            raise Refusal("no hello, or one of an attempt that has ended")
        if hello.schema_version > SCHEMA_VERSION:
            newer = f"schema {hello.schema_version} is newer than this agent's {SCHEMA_VERSION}: upgrade the agent"
            raise Refusal(newer)
        if (hello.task, hello.generation, hello.attempt) != (str(self._task), *self._attempt):
            expected = f"{self._task}, generation {self._attempt[0]}, attempt {self._attempt[1]}"
            raise Refusal(f"not the attempt that runs here: {expected}")
        if self._reporter is not None:
            raise Refusal(f"another process already reports for {self._task}")
        return hello

    def _collect(self, report: wire.ProbeReport, steps: list[wire.EncodedSteps]) -> None:
        if report.probe is not None:
            probe = self._with_checkpoint(report.probe)
            _log_problems(self.probe, probe)
            self.probe = probe
            self.strategy = self.probe.strategy or self.strategy
        if report.profile is not None:
            self.profiler.report(report.profile)
        self.collective = report.collective or self.collective
        self.training = report.training or self.training
        self.coordinator = report.coordinator or self.coordinator
        for activity in report.activities:
            self._activities[activity.kind, activity.begin] = activity
        self._steps.extend(steps)
        del self._steps[:-_WAITING]

    def _with_checkpoint(self, probe: ProbeStatus) -> ProbeStatus:
        """Return the status with the newest checkpoint of any attempt: a new one goes on from there."""
        self._checkpoint = probe.checkpoint or self._checkpoint
        return replace(probe, checkpoint=self._checkpoint)


def _log_problems(before: ProbeStatus | None, now: ProbeStatus) -> None:
    if now.state is ProbeState.DISABLED and (before is None or before.message != now.message):
        _logger.error("the probe has stopped measuring: %s", now.message)
    for warning in now.warnings:
        if before is None or warning not in before.warnings:
            _logger.warning("the probe: %s", warning)


def _listener(hello: wire.Hello) -> StackListener | None:
    return None if hello.stack_signal is None else StackListener(hello.pid, hello.stack_signal)
