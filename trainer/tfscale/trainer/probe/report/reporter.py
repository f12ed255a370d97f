"""Sink that sends reports to the agent of this host over its Unix socket."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, NamedTuple, Protocol

from tfscale.core.records.probe_status import ProbeStatus
from tfscale.core.records.profile import ProfileOrder, ProfileReport
from tfscale.core.wire.fields import WireError
from tfscale.core.wire.framing import AT_ONCE, HEADER_BYTES, FramingError, framed, length
from tfscale.trainer.probe.on_demand import stack_dumps
from tfscale.trainer.probe.process.agent_socket import connect
from tfscale.trainer.probe.process.identity import Identity
from tfscale.trainer.probe.report import wire
from tfscale.trainer.probe.report.sink import ProbeReport
from tfscale.trainer.probe.report.task_report import hello

_RETRY_SECONDS = 0.5
"""Seconds between two tries to reach an agent: a returning agent hears of steps within a second, and a try costs a
system call."""
_WAITING_SECONDS = 5.0
"""Seconds between two tries while another process of the task reports; a process that begins to train does not wait."""


class _Waiting(NamedTuple):
    """Report that waits for the agent."""

    message: bytes
    steps: int
    """Number of steps that would be lost with the report."""


class ProfileHandler(Protocol):
    """Function that carries out the agent's orders to profile.

    Its second argument sends each stage. Its last argument waits for some seconds, and returns True as soon as the
    process ends.
    """

    def __call__(
        self,
        order: ProfileOrder,
        send: Callable[[ProfileReport], object],
        wait: Callable[[float], bool],
        /,
    ) -> None: ...


class Reporter:
    """Sender of reports, in order, to the agent; while no agent listens, it keeps the newest reports."""

    def __init__(self, identity: Identity, on_order: ProfileHandler, capacity: int = 240) -> None:
        self._identity = identity
        self._on_order = on_order
        self._capacity = capacity
        self._stack_signal = stack_dumps.listen()
        self.refused: str | None = None
        """Reason why the agent refuses the reports of this process; None while it takes them."""
        self._changed = threading.Condition()
        """Lock of the following five attributes, and signal of their changes and of the closing."""
        self._reports: deque[_Waiting] = deque()
        self._is_sending = False
        """True while the thread sends a report that was queued."""
        self._lost = 0
        """Number of steps in reports that were dropped for newer ones."""
        self._probe: ProbeStatus | None = None
        self._agent: socket.socket | None = None
        """Connection to the agent that has accepted this process; None without a connection."""
        self._trains = False
        """True once this process has made steps since it last gave way to another process."""
        self._announced_training = False
        """True if the last hello said that this process trains."""
        self._must_wait = False
        """True if another process reports, by the agent's last answer."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._deliver, name="tfscale-reporter", daemon=True)
        with suppress(RuntimeError):  # Python ends, and starts no more threads: `close` delivers
            self._thread.start()

    def send(self, report: ProbeReport) -> None:
        """Queue a report; a full queue drops its oldest. Never blocks."""
        with self._changed:
            if report.status is not None:
                self._probe = report.status
            self._make_room()
            if report.steps or report.workers or report.stages:
                self._trains = True
                report, self._lost = report._replace(lost=report.lost + self._lost), 0
            self._queue(_Waiting(wire.serialised(self._identity, report), _steps_in(report)))

    def settle(self, timeout: float) -> None:
        """Wait until nothing is queued, for at most `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: not self._reports and not self._is_sending, timeout)

    def close(self, timeout: float) -> None:
        """Deliver the queued reports, for at most `timeout` seconds."""
        with self._changed:
            self._closing.set()
            self._changed.notify_all()
        if self._thread.ident is None:
            self._deliver(timeout)
        else:
            self._thread.join(timeout)

    def _make_room(self) -> None:
        while len(self._reports) >= self._capacity:
            self._lost += self._reports.popleft().steps

    def _queue(self, report: _Waiting) -> None:
        message = framed(report.message)
        if self._agent is None or self._reports or self._is_sending or not _is_sent(self._agent, message):
            self._reports.append(report)
            self._changed.notify_all()

    def _deliver(self, patience: float | None = None) -> None:
        while self.refused is None:
            with suppress(OSError, FramingError, WireError), socket.socket(socket.AF_UNIX) as agent:
                agent.settimeout(patience)
                connect(agent, self._identity.socket)
                if self._report_to(agent):
                    return
            if self._is_over_before_next_try():
                return

    def _is_over_before_next_try(self) -> bool:
        """Wait until the next try to connect. Return True if the process ends before.

        A process that has begun to train since its last hello takes the place of a process that does not train.
        """
        if not self._must_wait:
            return self._closing.wait(_RETRY_SECONDS)
        with self._changed:
            self._changed.wait_for(lambda: self._has_training_to_announce or self._closing.is_set(), _WAITING_SECONDS)
            return self._closing.is_set() and not self._has_training_to_announce

    @property
    def _has_training_to_announce(self) -> bool:
        return self._trains and not self._announced_training

    def _report_to(self, agent: socket.socket) -> bool:
        """Return True when finished (all delivered, or refused), False when the agent disconnected.

        Raises OSError when it disconnected during a write, FramingError and WireError when it is no agent.
        """
        self._must_wait = False
        self._announced_training = self._trains
        # The probe's status is reported only when it changes; an earlier agent may have heard that.
        agent.sendall(framed(hello(self._identity, self._stack_signal, self._probe, self._announced_training)))
        replies = agent.makefile("rb")
        first = _next(replies)
        if first is not None and first.waits is not None:
            self._must_wait = True
            return False
        if first is None or not first.accepted:
            self.refused = first.refused if first else None
            return first is not None
        self._agent = agent
        listener = threading.Thread(target=self._listen, args=(agent, replies), name="tfscale-orders", daemon=True)
        with suppress(RuntimeError):  # Python ends: nobody gives an order any more
            listener.start()
        while report := self._oldest(agent):
            self._send_queued(agent, report)
        if self._agent is not agent:
            return False
        # What was sent waits for the agent, also when this process has ended.
        agent.shutdown(socket.SHUT_WR)
        return True

    def _send_queued(self, agent: socket.socket, report: _Waiting) -> None:
        """Send a report that was queued. Raises OSError, and keeps it, when the agent has disconnected."""
        try:
            agent.sendall(framed(report.message))
        except OSError:
            with self._changed:
                self._reports.appendleft(report)
            raise

    def _give_way(self) -> None:
        """Wait while another process reports. Later steps of this process count as a new part."""
        with self._changed:
            self._must_wait, self._trains = True, False
            self._identity = self._identity.begun()

    def _oldest(self, agent: socket.socket) -> _Waiting | None:
        """Wait for the next report and return it; None at the end, or when the agent has disconnected."""
        with self._changed:
            self._is_sending = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._reports or self._closing.is_set() or self._agent is not agent)
            self._is_sending = bool(self._reports) and self._agent is agent
            return self._reports.popleft() if self._is_sending else None

    def _listen(self, agent: socket.socket, replies: BinaryIO) -> None:
        """Carry out the agent's orders until it disconnects."""

        def send(report: ProfileReport) -> None:
            with self._changed:
                # An agent that comes later has not asked for it.
                if self._agent is agent:
                    self._make_room()
                    self._queue(_Waiting(wire.profile_report(report), 0))

        try:
            with suppress(OSError, FramingError, WireError), replies:
                while reply := _next(replies):
                    if reply.refused is not None:
                        self.refused = reply.refused
                    elif reply.waits is not None:
                        self._give_way()
                    elif reply.profile is not None:
                        self._on_order(reply.profile, send, self._closing.wait)
        finally:
            with self._changed:
                if self._agent is agent:
                    self._agent = None
                self._changed.notify_all()


def _steps_in(report: ProbeReport) -> int:
    own = len(report.steps) + report.lost
    return own + sum(len(measured.steps) + measured.lost for measured in report.workers)


def _is_sent(agent: socket.socket, frame: bytes) -> bool:
    """Send the frame if it can be sent at once and whole; return whether it was."""
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


def _next(replies: BinaryIO) -> wire.AgentReply | None:
    """Return the next reply, None at the end. Raises FramingError and WireError."""
    header = replies.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES:
        return None
    return wire.reply(replies.read(length(header)))
