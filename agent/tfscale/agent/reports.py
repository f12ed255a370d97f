"""What the probe in the training process reports, over a Unix socket: one stream an attempt, and checked."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import grpc.aio
from tfscale.agent import wire
from tfscale.core.records import SCHEMA_VERSION, Collective, ProbeStatus, StepBatch
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
        self._steps: list[StepBatch] = []
        self.probe: ProbeStatus | None = None
        self.collective: Collective | None = None
        self.strategy: str | None = None
        """The last that any attempt has told: the program stays the same."""

    def begin(self, generation: int, attempt: int) -> None:
        """Expect another attempt; what an earlier one still sends is refused."""
        if (generation, attempt) != self._attempt:
            self._attempt = (generation, attempt)
            self._reporter = self.probe = self.collective = None

    def take_steps(self) -> tuple[StepBatch, ...]:
        """The batches since the last call, oldest first."""
        steps, self._steps = self._steps, []
        return tuple(steps)

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
                try:
                    self._collect(report)
                except wire.WireError as error:
                    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        finally:
            if self._reporter is token:
                self._reporter = None
        return report_pb2.ReportReply()

    async def _admit(
        self,
        report: report_pb2.TaskReport,
        context: grpc.aio.ServicerContext[report_pb2.TaskReport, report_pb2.ReportReply],
    ) -> None:
        if not report.HasField("hello"):
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no hello, or one of an attempt that has ended")
        hello = report.hello
        if hello.schema_version > SCHEMA_VERSION:
            newer = f"schema {hello.schema_version} is newer than this agent's {SCHEMA_VERSION}: upgrade the agent"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, newer)
        if (hello.task, hello.generation, hello.attempt) != (str(self._task), *self._attempt):
            expected = f"{self._task}, generation {self._attempt[0]}, attempt {self._attempt[1]}"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"not the attempt that runs here: {expected}")
        if self._reporter is not None:
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, f"another process already reports for {self._task}")

    def _collect(self, report: report_pb2.TaskReport) -> None:
        if report.HasField("probe"):
            self.probe = wire.probe_record(report.probe)
            self.strategy = self.probe.strategy or self.strategy
        if report.HasField("collective"):
            self.collective = wire.collective_record(report.collective)
        self._steps.extend(map(wire.steps_record, report.steps))
        del self._steps[:-_WAITING]
