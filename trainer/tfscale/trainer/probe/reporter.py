"""The stream of reports to the agent of this host, over its Unix socket."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Protocol

import grpc
from tfscale.trainer.probe import stacks, wire
from tfscale.trainer.probe.identity import Identity
from tfscale.trainer.probe.report import Report
from tfscale.v1 import report_pb2
from tfscale.v1.telemetry_pb2 import ProbeStatus

SCHEMA_VERSION = 1
_METHOD = "/tfscale.v1.Reports/Report"
_RETRY_SECONDS = 0.5
_OPTIONS = (("SingleThreadedUnaryStream", 1),)
"""Of gRPC for Python (`grpc.experimental.ChannelOptions`): who waits for orders waits in C, and does not look ten times
a second, each time with the GIL, whether there are any."""
_REFUSALS = (grpc.StatusCode.ALREADY_EXISTS, grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INVALID_ARGUMENT)


class Obey(Protocol):
    """Does what the agent orders until the future is done, and waits by the last argument."""

    def __call__(
        self,
        channel: grpc.Channel,
        hello: report_pb2.Hello,
        until: grpc.Future[report_pb2.ReportReply],
        wait: Callable[[float], bool],
        /,
    ) -> None: ...


class Reporter:
    """Sends reports in order, again and again to whichever agent listens; keeps the newest while none does."""

    def __init__(self, identity: Identity, capacity: int = 240, obey: Obey | None = None) -> None:
        self._identity = identity
        self._obey = obey
        self._stack_signal = stacks.listen()
        self._probe: ProbeStatus | None = None
        self.refused: str | None = None
        """Why the agent does not want this process's reports."""
        self._lost = 0
        self._reports: queue.Queue[report_pb2.TaskReport | None] = queue.Queue(capacity)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._deliver, name="tfscale-reporter", daemon=True)
        self._thread.start()

    def send(self, report: Report) -> None:
        """Queue a report; the oldest gives way when the queue is full. Never blocks."""
        message = wire.message(self._identity, report)
        if message.HasField("probe"):
            self._probe = message.probe
        while True:
            if message.steps:
                message.steps[0].lost += self._lost
                self._lost = 0
            try:
                return self._reports.put_nowait(message)
            except queue.Full:
                self._drop_oldest()

    def close(self, timeout: float) -> None:
        """Deliver what is queued, for at most `timeout` seconds."""
        self._closing.set()
        try:
            self._reports.put_nowait(None)
        except queue.Full:
            self._drop_oldest()
            self._reports.put_nowait(None)
        self._thread.join(timeout)

    def _drop_oldest(self) -> None:
        try:
            oldest = self._reports.get_nowait()
            if oldest is not None:
                self._lost += sum(len(batch.sequence) + batch.lost for batch in oldest.steps)
        except queue.Empty:
            pass

    def _deliver(self) -> None:
        while self.refused is None:
            try:
                self._stream()
                return
            except grpc.RpcError as error:
                if error.code() in _REFUSALS:
                    self.refused = error.details()
                    return
            if self._closing.wait(_RETRY_SECONDS):
                return

    def _stream(self) -> None:
        with grpc.insecure_channel(f"unix:{self._identity.socket}", _OPTIONS) as channel:
            call = channel.stream_unary(
                _METHOD,
                request_serializer=report_pb2.TaskReport.SerializeToString,
                response_deserializer=report_pb2.ReportReply.FromString,
            )
            done = threading.Event()
            response = call.future(self._requests(done))
            response.add_done_callback(lambda _: done.set())
            response.initial_metadata()  # is there when the agent has taken the hello
            if self._obey is not None:
                # An older agent has no orders to give.
                with suppress(grpc.RpcError):
                    self._obey(channel, self._hello(), response, self._closing.wait)
            # The result by itself would be asked for ten times a second, each time with the GIL.
            done.wait()
            response.result()

    def _requests(self, done: threading.Event) -> Iterator[report_pb2.TaskReport]:
        yield report_pb2.TaskReport(
            hello=self._hello(),
            # Reported only when it changes, which another agent than this one's listener may have heard.
            probe=self._probe,
        )
        while not done.is_set():
            try:
                report = self._reports.get(timeout=0.5)
            except queue.Empty:
                continue
            if report is None:
                return
            if done.is_set():
                self._reports.put(report)
                return
            yield report

    def _hello(self) -> report_pb2.Hello:
        identity = self._identity
        return report_pb2.Hello(
            schema_version=SCHEMA_VERSION,
            task=identity.task,
            generation=identity.generation,
            attempt=identity.attempt,
            pid=os.getpid(),
            stack_signal=self._stack_signal,
        )
