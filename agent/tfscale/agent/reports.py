"""What the probe in the training process reports, over a Unix socket: one connection an attempt, and checked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace

from google.protobuf.message import DecodeError
from tfscale.agent import wire
from tfscale.agent.profiles import Profiler
from tfscale.agent.stacks import Listener
from tfscale.core.errors import TfscaleError
from tfscale.core.framing import HEADER_BYTES, FramingError, framed, length
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
        self._reporter: object | None = None
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
        """Expect another attempt; what an earlier one still sends is refused."""
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

    async def listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One reporter's connection, until it ends."""
        connection = object()
        orders: asyncio.Task[None] | None = None
        try:
            async for report in _messages(reader):
                if self._reporter is not connection:
                    self._admit(report)
                    self._reporter = connection
                    self.listener = _listener(report.hello)
                    _reply(writer, report_pb2.ReportReply(accepted=report_pb2.Accepted()))
                    orders = asyncio.create_task(self._give_orders(writer))
                self._collect(report)
        except (Refusal, FramingError, DecodeError, wire.WireError) as error:
            _reply(writer, report_pb2.ReportReply(refused=str(error)))
        finally:
            if orders is not None:
                orders.cancel()
            if self._reporter is connection:
                self._reporter = self.listener = None
            writer.close()

    async def _give_orders(self, writer: asyncio.StreamWriter) -> None:
        async with aclosing(self.profiler.listen()) as orders:
            async for order in orders:
                _reply(writer, report_pb2.ReportReply(profile=wire.order_message(order)))

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


async def _messages(reader: asyncio.StreamReader) -> AsyncIterator[report_pb2.TaskReport]:
    """What comes, until the other end is gone; what it had not finished is nothing. Raises FramingError and
    DecodeError."""
    while True:
        try:
            message = await reader.readexactly(length(await reader.readexactly(HEADER_BYTES)))
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        yield report_pb2.TaskReport.FromString(message)


def _reply(writer: asyncio.StreamWriter, reply: report_pb2.ReportReply) -> None:
    writer.write(framed(reply.SerializeToString()))


def _listener(hello: report_pb2.Hello) -> Listener | None:
    return Listener(hello.pid, hello.stack_signal) if hello.HasField("stack_signal") else None
