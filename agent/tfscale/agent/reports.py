"""What the probe in the training process reports, over a Unix socket: one connection an attempt, and checked.

It is heard when a frame is made: an agent that was woken for each report would take that from the training, too
(docs/spikes/cost.md).
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import aclosing
from dataclasses import replace

from google.protobuf.message import DecodeError
from tfscale.agent import wire
from tfscale.agent.connection import Connection
from tfscale.agent.profiles import Profiler
from tfscale.agent.stacks import Listener
from tfscale.core.errors import TfscaleError
from tfscale.core.records import (
    SCHEMA_VERSION,
    Activity,
    ActivityKind,
    Collective,
    Coordinator,
    ProbeStatus,
    StepBatch,
    Training,
)
from tfscale.core.task import Task
from tfscale.core.wire.framing import FramingError
from tfscale.v1 import report_pb2

_WAITING = 10_000
"""Batches kept for the next frame; more than that and the oldest go."""


class Refusal(TfscaleError):
    """A process that is not listened to."""


class Reports:
    """Collects from the one reporter of an attempt; `take_steps` empties what has been gathered."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._attempt: tuple[int, int] = (0, 0)
        self._connections: dict[Connection, asyncio.Task[None] | None] = {}
        """And who gives each of them orders, once it has said who it is."""
        self._reporter: Connection | None = None
        self.listener: Listener | None = None
        """The process that reports, where it can be asked for its stacks."""
        self.profiler = Profiler()
        self._steps: list[StepBatch] = []
        self.probe: ProbeStatus | None = None
        self.collective: Collective | None = None
        self.training: Training | None = None
        self.coordinator: Coordinator | None = None
        self._activities: dict[tuple[ActivityKind, float], Activity] = {}
        self.strategy: str | None = None
        """The last that any attempt has told: the program stays the same."""
        self._checkpoint: float | None = None

    def begin(self, generation: int, attempt: int) -> None:
        """Expect another attempt; what an earlier one sends from now on is refused."""
        self.hear()
        if (generation, attempt) != self._attempt:
            self._attempt = (generation, attempt)
            self._reporter = self.listener = self.probe = self.collective = self.training = None
            self.coordinator = None
            self._activities = {}

    def take_steps(self) -> tuple[StepBatch, ...]:
        """The batches since the last call, oldest first."""
        steps, self._steps = self._steps, []
        return tuple(steps)

    def take_activities(self) -> tuple[Activity, ...]:
        """Those that have ended since the last call, and those that still last, oldest first."""
        taken = tuple(self._activities.values())
        self._activities = {key: activity for key, activity in self._activities.items() if activity.end is None}
        return taken

    def accept(self, process: socket.socket) -> None:
        """Hear who has connected: at once until it has said who it is, then by `hear`."""
        connection = Connection(process)
        self._connections[connection] = None
        asyncio.get_running_loop().add_reader(connection, self._hear, connection)

    def hear(self) -> None:
        """Collect what was said since the last call."""
        for connection in tuple(self._connections):
            self._hear(connection)

    def close(self) -> None:
        """Collect what was said, and hear nobody any more."""
        self.hear()
        for connection in tuple(self._connections):
            self._let_go(connection)

    def _hear(self, connection: Connection) -> None:
        try:
            for report in connection.messages():
                if self._reporter is not connection:
                    self._admit(report)
                    self._greet(connection, report.hello)
                self._collect(report)
        except (Refusal, FramingError, DecodeError, wire.WireError) as error:
            connection.reply(report_pb2.ReportReply(refused=str(error)))
            self._let_go(connection)
        else:
            if connection.is_over:
                self._let_go(connection)

    def _greet(self, connection: Connection, hello: report_pb2.Hello) -> None:
        asyncio.get_running_loop().remove_reader(connection)
        self._reporter = connection
        self.listener = _listener(hello)
        connection.reply(report_pb2.ReportReply(accepted=report_pb2.Accepted()))
        self._connections[connection] = asyncio.create_task(self._give_orders(connection))

    def _let_go(self, connection: Connection) -> None:
        orders = self._connections.pop(connection)
        if orders is None:
            asyncio.get_running_loop().remove_reader(connection)
        else:
            orders.cancel()
        if self._reporter is connection:
            self._reporter = self.listener = None
        connection.close()

    async def _give_orders(self, connection: Connection) -> None:
        async with aclosing(self.profiler.listen()) as orders:
            async for order in orders:
                connection.reply(report_pb2.ReportReply(profile=wire.order_message(order)))

    def _admit(self, report: report_pb2.TaskReport) -> None:
        """Whether it is of the attempt that runs. Raises Refusal."""
        hello = report.hello
        if not report.HasField("hello"):
            raise Refusal("no hello, or one of an attempt that has ended")
        if hello.schema_version > SCHEMA_VERSION:
            newer = f"schema {hello.schema_version} is newer than this agent's {SCHEMA_VERSION}: upgrade the agent"
            raise Refusal(newer)
        if (hello.task, hello.generation, hello.attempt) != (str(self._task), *self._attempt):
            expected = f"{self._task}, generation {self._attempt[0]}, attempt {self._attempt[1]}"
            raise Refusal(f"not the attempt that runs here: {expected}")
        if self._reporter is not None:
            raise Refusal(f"another process already reports for {self._task}")

    def _collect(self, report: report_pb2.TaskReport) -> None:
        if report.HasField("probe"):
            self.probe = self._with_checkpoint(wire.probe_record(report.probe))
            self.strategy = self.probe.strategy or self.strategy
        if report.HasField("collective"):
            self.collective = wire.collective_record(report.collective)
        if report.HasField("training"):
            self.training = wire.training_record(report.training)
        if report.HasField("coordinator"):
            self.coordinator = wire.coordinator_record(report.coordinator)
        if report.HasField("profile"):
            self.profiler.tell(wire.told_record(report.profile))
        for activity in map(wire.activity_record, report.activities):
            self._activities[activity.kind, activity.begin] = activity
        self._steps.extend(map(wire.steps_record, report.steps))
        del self._steps[:-_WAITING]

    def _with_checkpoint(self, probe: ProbeStatus) -> ProbeStatus:
        """A new attempt goes on from the checkpoint that an earlier one has written."""
        self._checkpoint = probe.checkpoint or self._checkpoint
        return replace(probe, checkpoint=self._checkpoint)


def _listener(hello: report_pb2.Hello) -> Listener | None:
    return Listener(hello.pid, hello.stack_signal) if hello.HasField("stack_signal") else None
