"""Reports of the probe in the training process, over a Unix socket: of one process at a time.

Reports are read when a frame is made: waking the agent for each report would take that time from the training, too
(docs/reference/cost.md).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from contextlib import aclosing
from dataclasses import replace

from tfscale.agent import wire
from tfscale.agent.on_demand.profile_requests import Profiler
from tfscale.agent.on_demand.stack_requests import StackListener
from tfscale.agent.process.started_process import has_probe
from tfscale.agent.telemetry.probe_connection import ProbeConnection
from tfscale.core.cluster.restart import governing
from tfscale.core.cluster.strategy import DEFAULT
from tfscale.core.cluster.task import Task
from tfscale.core.errors import TfscaleError
from tfscale.core.log_clues import UNMEASURED, UNTRAINED
from tfscale.core.records.hello import Hello
from tfscale.core.records.probe_status import Activity, ActivityKind, Collective, ProbeState, ProbeStatus
from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.core.records.step_batch import Coordinator
from tfscale.core.records.training import Training
from tfscale.core.text import clock
from tfscale.core.wire.fields import WireError
from tfscale.core.wire.framing import FramingError

_logger = logging.getLogger(__name__)
_PAUSE = 30.0
"""Seconds without a step after which the reporting process gives way to a process that trains.

An evaluation between two epochs is often longer than a few seconds, and must not cost a process its place. If another
process follows, the first would be shown as still for this time.
"""
_GONE = 15.0
"""Seconds after which a waiting process counts as gone: it asks every five."""
_LOST = 5.0
"""Seconds after the reporter's last word for which it may come back. It tries twice a second: with less a busy process
would be lost, with more one whose threads are gone is told later."""
_WAITING = 10_000
"""Batches kept for the next frame; when there are more, the oldest are dropped."""
_LEFT_OUT = "more warnings of this probe are left out: the first 50 are kept"
_MOST_WARNINGS = 50
"""Different warnings of an attempt that are kept, and of other processes: each frame repeats them, and the log."""


class Refusal(TfscaleError):
    """A process whose reports are not accepted."""


class Newer(Refusal):
    """A process with a newer probe than this agent, as after an upgrade while the agent runs."""


class Occupied(TfscaleError):
    """A process whose reports are not accepted while another process of its task reports."""


class ProbeReports:
    """Collection of the reports of an attempt's reporter, the process that trains; `take_steps` empties it."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._attempt: tuple[int, int] = (0, 0)
        self._connections: dict[ProbeConnection, asyncio.Task[None] | None] = {}
        """Connections, each with the job that sends it orders once its hello is accepted."""
        self._reporter: ProbeConnection | None = None
        self._reporter_pid = 0
        self._last: ProbeConnection | None = None
        """Connection of the newest reporter, also when it has left."""
        self._left_at: float | None = None
        """Monotonic seconds at which it left; None while it reports."""
        self._trained_at: float | None = None
        """Monotonic seconds of the newest steps of the reporter, None before its first."""
        self._has_trained = False
        """True once a process of this attempt has trained."""
        self._succession = ""
        """Sentence about the newest change of the process that trains."""
        self._others: dict[int, float] = {}
        """Monotonic seconds at which another process, by its id, last said that it trains as well."""
        self.listener: StackListener | None = None
        """The process that reports, where it can be asked for its stacks."""
        self.profiler = Profiler()
        self._steps: list[wire.EncodedSteps] = []
        self.steps = 0
        """Rows of steps that this attempt has reported so far."""
        self._probe: ProbeStatus | None = None
        self.collective: Collective | None = None
        self.training: Training | None = None
        self.coordinator: Coordinator | None = None
        self._activities: dict[tuple[ActivityKind, float], Activity] = {}
        self.strategy: str | None = None
        """The newest strategy that any attempt has reported, as `governing` returns it: the program stays the same."""
        self._checkpoint: float | None = None
        self._warned: set[str] = set()
        """Warnings of this attempt, as far as they are kept."""

    def begin(self, generation: int, attempt: int) -> None:
        """Expect another attempt; reports of an earlier one are refused from now on."""
        self.hear()
        if (generation, attempt) != self._attempt:
            self._attempt, self.steps = (generation, attempt), 0
            self._reporter = self.listener = None
            self._has_trained, self._succession, self._others = False, "", {}
            self._warned = set()
            self._forget()

    def _forget(self) -> None:
        """Forget the reports of the last process: another process begins."""
        self._probe = self.collective = self.training = self.coordinator = self._trained_at = self._left_at = None
        self._activities = {}

    @property
    def probe(self) -> ProbeStatus | None:
        """Status of the probe in the process that trains, with facts about the task's other processes."""
        if self._probe is None:
            return None
        if self._is_lost:
            said = f"its process {self._reporter_pid} runs on, and its probe reports no more: restart the task"
            return replace(self._probe, state=ProbeState.DISABLED, message=said)
        heard = time.monotonic() - _GONE
        others = [_also_trains(pid, self._reporter_pid) for pid, at in self._others.items() if at > heard]
        notes = [*([self._succession] if self._succession else []), *others[:_MOST_WARNINGS]]
        return replace(self._probe, warnings=(*self._probe.warnings, *notes)) if notes else self._probe

    @property
    def _is_lost(self) -> bool:
        """True if the probe is in the last reporter still, and reports no more."""
        left, last = self._left_at, self._last
        return left is not None and last is not None and time.monotonic() - left > _LOST and has_probe(last.pid)

    @property
    def lasting(self) -> list[ActivityKind]:
        """Kinds of the activities that last."""
        return [activity.kind for activity in self._activities.values() if activity.end is None]

    @property
    def is_waiting(self) -> bool:
        """True while the process waits for others: in a collective, or as chief for the functions of its workers."""
        if self.coordinator is not None:
            return any(functions.since is not None for functions in self.coordinator.workers)
        return self.collective is not None and self.collective.entered > self.collective.left

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
        """Read a new connection: at once until its hello is accepted, later by `hear`."""
        connection = ProbeConnection(process)
        self._connections[connection] = None
        asyncio.get_running_loop().add_reader(connection, self._hear, connection)

    def hear(self) -> None:
        """Read the reports that came since the last call."""
        for connection in tuple(self._connections):
            if connection in self._connections:  # it has not just given its place to another one
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
                if steps:
                    self._on_training()
                self._collect(report, steps)
        except Occupied as error:
            connection.reply(wire.waiting_reply(str(error)))
            self._let_go(connection)
        except (Refusal, FramingError, WireError) as error:
            _logger.warning("refused the reports of a process: %s", error)
            if isinstance(error, Newer) and self._probe is None:
                self._probe = ProbeStatus(ProbeState.ABSENT, f"its reports are refused: {error}")
            connection.reply(wire.refusal_reply(str(error)))
            self._let_go(connection)
        else:
            if connection.is_over:
                self._let_go(connection)

    def _greet(self, connection: ProbeConnection, hello: Hello) -> None:
        asyncio.get_running_loop().remove_reader(connection)
        if self._reporter is not None:
            self._give_place()
        self._reporter = self._last = connection
        self._reporter_pid, self._left_at = hello.pid, None
        self._others.pop(hello.pid, None)
        self.listener = _listener(hello)
        _logger.info("process %d reports", hello.pid)
        connection.reply(wire.acceptance_reply())
        self._connections[connection] = asyncio.create_task(self._give_orders(connection))

    def _give_place(self) -> None:
        """Release a reporter without recent steps, because another process of the task makes steps."""
        assert self._reporter is not None
        self._reporter.reply(wire.waiting_reply("another process of the task trains"))
        self._let_go(self._reporter)
        self._forget()

    def _on_training(self) -> None:
        """Mark that the reporter has made steps, and whether another process of its attempt did so before."""
        if self._trained_at is None and self._has_trained:
            self._succession = (
                f"process {self._reporter_pid} trains since {clock(time.time())}, after another one of this attempt: "
                "its steps are counted from 0"
            )
            _logger.info("%s", self._succession)
        self._trained_at, self._has_trained = time.monotonic(), True

    def _let_go(self, connection: ProbeConnection) -> None:
        orders = self._connections.pop(connection)
        if orders is None:
            asyncio.get_running_loop().remove_reader(connection)
        else:
            orders.cancel()
        if self._reporter is connection:
            _logger.info("the training process has disconnected")
            self._reporter = self.listener = self._trained_at = None
            self._left_at = time.monotonic()
        connection.close()

    async def _give_orders(self, connection: ProbeConnection) -> None:
        async with aclosing(self.profiler.listen()) as orders:
            async for order in orders:
                connection.reply(wire.order_reply(order))

    def _admitted(self, hello: Hello | None) -> Hello:
        """Return the hello of the process that is to report. Raises Refusal and Occupied."""
        if hello is None:
            raise Refusal("no hello, or one of an attempt that has ended")
        if hello.schema_version > SCHEMA_VERSION:
            newer = f"schema {hello.schema_version} is newer than this agent's {SCHEMA_VERSION}: upgrade the agent"
            raise Newer(f"{newer}, and start it anew")
        if (hello.task, hello.generation, hello.attempt) != (str(self._task), *self._attempt):
            expected = f"{self._task}, generation {self._attempt[0]}, attempt {self._attempt[1]}"
            raise Refusal(f"not the attempt that runs here: {expected}")
        if self._reporter is not None and not hello.trains:
            raise Occupied("another process reports, and this one does not train")
        if self._reporter is not None and self._is_training:
            self._hear_other(hello.pid)
            raise Occupied("another process trains")
        return hello

    @property
    def _is_training(self) -> bool:
        return self._trained_at is not None and time.monotonic() - self._trained_at < _PAUSE

    def _hear_other(self, pid: int) -> None:
        if pid not in self._others:
            _logger.warning("%s", _also_trains(pid, self._reporter_pid))
        self._others[pid] = time.monotonic()

    def _collect(self, report: wire.ProbeReport, steps: list[wire.EncodedSteps]) -> None:
        if report.probe is not None:
            probe = self._with_what_is_known(report.probe)
            _log_problems(self._probe, probe)
            self._probe = probe
            self._note_strategy(governing(probe))
        if report.profile is not None:
            self.profiler.report(report.profile)
        self.collective = report.collective or self.collective
        self.training = report.training or self.training
        self.coordinator = report.coordinator or self.coordinator
        for activity in report.activities:
            self._activities[activity.kind, activity.begin] = activity
        self.steps += sum(batch.rows for batch in steps)
        self._steps.extend(steps)
        del self._steps[:-_WAITING]

    def _note_strategy(self, strategy: str | None) -> None:
        """Take in the strategy of a report. Steps outside of a strategy that joins workers leave them joined."""
        self.strategy = (self.strategy or strategy) if strategy == DEFAULT.name else strategy or self.strategy

    def _with_what_is_known(self, probe: ProbeStatus) -> ProbeStatus:
        """Return the status with the newest checkpoint of any attempt: a new attempt goes on from this checkpoint.

        A process without a step is no fault where another process of its attempt has trained. Of warnings, those that
        came first are kept.
        """
        self._checkpoint = probe.checkpoint or self._checkpoint
        given = dict.fromkeys(probe.warnings)
        notes = [note for note in given if not (self._has_trained and note.startswith(UNTRAINED))]
        for note in notes:
            if len(self._warned) < _MOST_WARNINGS:
                self._warned.add(note)
        kept = [note for note in notes if note in self._warned]
        left_out = [f"{dropped} {_LEFT_OUT}"] if (dropped := len(notes) - len(kept)) else []
        return replace(probe, checkpoint=self._checkpoint, warnings=(*kept, *left_out))


def _also_trains(pid: int, reporter: int) -> str:
    return f"{UNMEASURED}process {pid} trains as well, and only process {reporter} of this task is measured"


def _log_problems(before: ProbeStatus | None, now: ProbeStatus) -> None:
    is_news = before is None or before.message != now.message
    if is_news and now.state is ProbeState.DISABLED:
        _logger.error("the probe has stopped measuring: %s", now.message)
    if is_news and now.state is ProbeState.ABSENT:
        _logger.warning("the task is neither measured nor repaired: %s", now.message)
    known = before.warnings if before is not None else ()
    has_left_out = any(warning.endswith(_LEFT_OUT) for warning in known)
    for warning in now.warnings:
        if warning not in known and not (has_left_out and warning.endswith(_LEFT_OUT)):
            _logger.warning("the probe: %s", warning)


def _listener(hello: Hello) -> StackListener | None:
    return None if hello.stack_signal is None else StackListener(hello.pid, hello.stack_signal)
