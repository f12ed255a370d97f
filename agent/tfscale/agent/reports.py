"""What the probe in the training process reports, over a Unix socket: one stream an attempt, and checked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
from tfscale.agent import wire
from tfscale.agent.profiles import Profiler
from tfscale.agent.stacks import Listener
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
from tfscale.v1 import report_pb2, report_pb2_grpc

_WAITING = 10_000
"""Batches kept for the next frame; more than that and the oldest go."""


class Reports(report_pb2_grpc.ReportsServicer):
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

    async def Report(
        self,
        request_iterator: AsyncIterator[report_pb2.TaskReport],
        context: grpc.aio.ServicerContext[report_pb2.TaskReport, report_pb2.ReportReply],
    ) -> report_pb2.ReportReply:
        """One reporter's stream, until it ends."""
        token = object()
        try:
            async for report in request_iterator:
                if self._reporter is not token:
                    await self._admit(report, context)
                    self._reporter = token
                    self.listener = _listener(report.hello)
                    await context.send_initial_metadata(())
                try:
                    self._collect(report)
                except wire.WireError as error:
                    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        finally:
            if self._reporter is token:
                self._reporter = self.listener = None
        return report_pb2.ReportReply()

    async def Orders(
        self, request: report_pb2.Hello, context: grpc.aio.ServicerContext[report_pb2.Hello, report_pb2.ProfileOrder]
    ) -> AsyncIterator[report_pb2.ProfileOrder]:
        """What the process that reports shall do."""
        await self._check(request, context)
        async with aclosing(self.profiler.listen()) as orders:
            async for order in orders:
                yield wire.order_message(order)

    async def Profiled(
        self,
        request: report_pb2.ProfileReport,
        _context: grpc.aio.ServicerContext[report_pb2.ProfileReport, report_pb2.ReportReply],
    ) -> report_pb2.ReportReply:
        """How far it has come with an order."""
        self.profiler.tell(wire.told_record(request))
        return report_pb2.ReportReply()

    async def _admit(
        self,
        report: report_pb2.TaskReport,
        context: grpc.aio.ServicerContext[report_pb2.TaskReport, report_pb2.ReportReply],
    ) -> None:
        if not report.HasField("hello"):
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no hello, or one of an attempt that has ended")
        await self._check(report.hello, context)
        if self._reporter is not None:
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, f"another process already reports for {self._task}")

    async def _check(self, hello: report_pb2.Hello, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Whether it is of the attempt that runs."""
        if hello.schema_version > SCHEMA_VERSION:
            newer = f"schema {hello.schema_version} is newer than this agent's {SCHEMA_VERSION}: upgrade the agent"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, newer)
        if (hello.task, hello.generation, hello.attempt) != (str(self._task), *self._attempt):
            expected = f"{self._task}, generation {self._attempt[0]}, attempt {self._attempt[1]}"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"not the attempt that runs here: {expected}")

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
