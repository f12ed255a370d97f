"""Reports to the agent of this host, over its Unix socket."""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, Protocol

from google.protobuf.message import DecodeError
from tfscale.core.wire.framing import AT_ONCE, HEADER_BYTES, FramingError, framed, length
from tfscale.trainer.probe import stacks, wire
from tfscale.trainer.probe.identity import Identity
from tfscale.trainer.probe.report import Messages, Report
from tfscale.v1 import report_pb2
from tfscale.v1.telemetry_pb2 import ProbeStatus

SCHEMA_VERSION = 1
_RETRY_SECONDS = 0.5


class Obey(Protocol):
    """Does what the agent orders, says how far it has come by the second argument, and waits by the last: so many
    seconds, True when the process ends meanwhile."""

    def __call__(
        self,
        order: report_pb2.ProfileOrder,
        tell: Callable[[report_pb2.ProfileReport], object],
        wait: Callable[[float], bool],
        /,
    ) -> None: ...


class Reporter:
    """Sends reports in order, again and again to whichever agent listens; keeps the newest while none does."""

    def __init__(self, identity: Identity, obey: Obey, capacity: int = 240) -> None:
        self._identity = identity
        self._obey = obey
        self._capacity = capacity
        self._stack_signal = stacks.listen()
        self.refused: str | None = None
        """Why the agent does not want this process's reports."""
        self.messages = Messages(wire.head(identity).SerializeToString(), self._tell, self._lend)
        self._changed = threading.Condition()
        """Of the following six, and of what closes."""
        self._reports: deque[bytes] = deque()
        """Messages (`TaskReport`)."""
        self._is_sending = False
        """Whether the thread sends what was queued."""
        self._lost = 0
        self._probe: ProbeStatus | None = None
        self._agent: socket.socket | None = None
        """That has accepted this process, and is there still."""
        self._recall: Callable[[], None] = lambda: None
        """Gets the agent's socket back from whom it was lent to."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._deliver, name="tfscale-reporter", daemon=True)
        self._thread.start()

    def send(self, report: Report) -> None:
        """Queue a report; the oldest gives way when the queue is full. Never blocks."""
        message = wire.message(self._identity, report)
        with self._changed:
            if message.HasField("probe"):
                self._probe = message.probe
            self._queue(message.SerializeToString())

    def _tell(self, message: bytes) -> None:
        with self._changed:
            self._queue(message)

    def _lend(self, recall: Callable[[], None]) -> int | None:
        with self._changed:
            if self._agent is None or self._reports or self._is_sending or self._lost:
                return None
            self._recall = recall
            with suppress(OSError):
                return os.dup(self._agent.fileno())
            return None

    def close(self, timeout: float) -> None:
        """Deliver what is queued, for at most `timeout` seconds."""
        with self._changed:
            self._closing.set()
            self._changed.notify()
        self._thread.join(timeout)

    def _queue(self, message: bytes) -> None:
        while len(self._reports) >= self._capacity:
            oldest = report_pb2.TaskReport.FromString(self._reports.popleft())
            self._lost += sum(len(batch.sequence) + batch.lost for batch in oldest.steps)
        if self._lost:
            message = self._with_lost(message)
        if self._agent is None or self._reports or self._is_sending or not _is_sent(self._agent, framed(message)):
            self._recall()
            self._reports.append(message)
            self._changed.notify()

    def _with_lost(self, message: bytes) -> bytes:
        """What it says, and that steps before it were lost, where it tells of steps."""
        report = report_pb2.TaskReport.FromString(message)
        if report.steps:
            report.steps[0].lost += self._lost
            self._lost = 0
        return report.SerializeToString()

    def _deliver(self) -> None:
        while self.refused is None:
            with suppress(OSError, FramingError, DecodeError), socket.socket(socket.AF_UNIX) as agent:
                agent.connect(self._identity.socket)
                if self._report_to(agent):
                    return
            if self._closing.wait(_RETRY_SECONDS):
                return

    def _report_to(self, agent: socket.socket) -> bool:
        """Whether all was delivered at the end, or none is wanted; else the agent has gone. Raises OSError where it
        has, FramingError and DecodeError where it is none."""
        # What the probe is, it reports only when it changes; another agent than this one may have heard that.
        agent.sendall(framed(report_pb2.TaskReport(hello=self._hello(), probe=self._probe).SerializeToString()))
        replies = agent.makefile("rb")
        first = _next(replies)
        if first is None or not first.HasField("accepted"):
            self.refused = first.refused if first else None
            return first is not None
        self._agent = agent
        listener = threading.Thread(target=self._listen, args=(agent, replies), name="tfscale-orders", daemon=True)
        listener.start()
        while report := self._oldest(agent):
            try:
                agent.sendall(framed(report))
            except OSError:
                with self._changed:
                    self._reports.appendleft(report)
                raise
        if self._agent is not agent:
            return False
        # What was sent waits for the agent, also when this process has ended.
        agent.shutdown(socket.SHUT_WR)
        return True

    def _oldest(self, agent: socket.socket) -> bytes | None:
        """The next report, when there is one; None where there is none and the process ends, or the agent has gone."""
        with self._changed:
            self._is_sending = False
            self._changed.wait_for(lambda: self._reports or self._closing.is_set() or self._agent is not agent)
            self._is_sending = bool(self._reports) and self._agent is agent
            return self._reports.popleft() if self._is_sending else None

    def _listen(self, agent: socket.socket, replies: BinaryIO) -> None:
        """Do what the agent says, until it goes."""

        def tell(report: report_pb2.ProfileReport) -> None:
            with self._changed:
                # An agent that comes later has not asked for it.
                if self._agent is agent:
                    self._queue(report_pb2.TaskReport(profile=report).SerializeToString())

        try:
            with suppress(OSError, FramingError, DecodeError), replies:
                while reply := _next(replies):
                    if reply.HasField("refused"):
                        self.refused = reply.refused
                        self._recall()
                    elif reply.HasField("profile"):
                        self._obey(reply.profile, tell, self._closing.wait)
        finally:
            with self._changed:
                if self._agent is agent:
                    self._agent = None
                self._recall()
                self._changed.notify()

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


def _is_sent(agent: socket.socket, frame: bytes) -> bool:
    """Whether it went at once. One that is not too long goes as a whole, or not at all."""
    if len(frame) > AT_ONCE:
        return False
    try:
        sent = agent.send(frame, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    except OSError:
        return False
    if sent < len(frame):
        # What comes after a part of a message would be taken for its rest.
        agent.shutdown(socket.SHUT_RDWR)
    return sent == len(frame)


def _next(replies: BinaryIO) -> report_pb2.ReportReply | None:
    """The next reply, None at the end. Raises FramingError and DecodeError."""
    header = replies.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES:
        return None
    return report_pb2.ReportReply.FromString(replies.read(length(header)))
