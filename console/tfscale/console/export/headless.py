"""The console without a screen: lines or tables of a source's events, for logs and scripts."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence

from tfscale.console.alerts.run_alerts import RunAlerts
from tfscale.console.analysis.stragglers.straggler_rule import Suspect
from tfscale.console.ending.run_memory import RunMemory
from tfscale.console.engine.engine import Engine, EngineListener
from tfscale.console.engine.events import AgentDescribed, Event, FrameArrived
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.stop_condition import StopCondition
from tfscale.console.export import rows
from tfscale.console.export.outputs import Output
from tfscale.console.export.plain import PlainTeller
from tfscale.core.cluster.task import Task
from tfscale.core.wire.json_records import Json


class Headless:
    """Writer of an engine's events, or of plain lines, up to a signal, the end of its reader, or its stop condition."""

    def __init__(
        self,
        engine: Engine,
        output: Output,
        *,
        only: str | None = None,
        is_table: bool = False,
        is_plain: bool = False,
        until: StopCondition | None = None,
        alerts: RunAlerts | None = None,
        listeners: Sequence[EngineListener] = (),
    ) -> None:
        """Write to the output; `listeners` hear the same."""
        self._engine = engine
        self._output = output
        self._only = only
        self._is_table = is_table
        self._plain = PlainTeller(output) if is_plain else None
        self._until = until or StopCondition()
        self._alerts = alerts
        self._listeners = listeners
        self._agent_lines = rows.AgentLines(engine.source.spec)
        self._suspect: Suspect | None = None
        self._states: dict[Task, tuple[object, ...]] = {}
        """Newest written state of each task, with its restart."""
        self.frames = 0
        """Number of frames so far."""
        self.memory = RunMemory()
        self.newest: Snapshot | None = None
        self.is_interrupted = False
        """True once a signal has asked for the end."""

    async def run(self) -> None:
        """Write until the end. Raises BrokenPipeError when the reader of the output has gone."""
        with ended_by_signals(self._interrupt):
            await self._engine.run(self)
        if self._plain is not None:
            self._plain.finish()
        if self._alerts is not None:
            self._alerts.finish(self.memory)
        self._output.flush()

    def _interrupt(self) -> None:
        self.is_interrupted = True
        self._engine.stop()

    def event_folded(self, event: Event) -> None:
        self.memory.fold(event)
        if self._alerts is not None:
            self._alerts.event_folded(event)
        for listener in self._listeners:
            listener.event_folded(event)
        if isinstance(event, FrameArrived):
            self.frames += 1
            self._write_frame(event)
        elif isinstance(event, AgentDescribed):
            self._write_event(self._agent_lines.line(event))
        elif (line := rows.event_line(event)) is not None:
            self._write_event(line)

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        self.memory.add(snapshot)
        self.newest = snapshot
        for listener in self._listeners:
            listener.snapshot_taken(snapshot)
        for diagnosis in snapshot.changes:
            self._write_event(rows.diagnosis_line(diagnosis, snapshot.at))
        if self._alerts is not None:
            self._alerts.snapshot_taken(snapshot, self.memory)
        self._write_suspect(snapshot)
        if self._plain is not None:
            self._plain.tell(snapshot)
        self._output.flush()
        if not snapshot.is_outdated and self._until.is_over(snapshot, self._engine.state):
            self._engine.stop()

    def _write_frame(self, event: FrameArrived) -> None:
        if self._plain is not None:
            return
        match self._only:
            case None:
                self._output.write(rows.frame_line(event))
            case "frames" if self._is_table:
                self._output.write(rows.frame_row(event))
            case "frames":
                line = rows.frame_line(event)
                del line["steps"]
                self._output.write(line)
            case "events":
                self._write_state(event)
            case "steps":
                for row in rows.step_rows(event) if self._is_table else rows.step_lines(event):
                    self._output.write(row)

    def _write_state(self, event: FrameArrived) -> None:
        """Write each new state of a task: restarts by agents or other consoles are no commands here."""
        status = event.frame.status
        state = (status.state, status.generation, status.attempt, status.reason, status.restart_at)
        if self._states.get(event.task) != state:
            self._states[event.task] = state
            self._write_event(rows.task_line(event))

    def _write_suspect(self, snapshot: Snapshot) -> None:
        """Write each new suspect, which is no event."""
        suspect, before = snapshot.findings.suspect, self._suspect
        self._suspect = suspect
        if self._plain is None and self._only is None and (suspect and suspect.subject) != (before and before.subject):
            self._output.write(rows.suspect_line(suspect, snapshot.at))

    def _write_event(self, line: Json) -> None:
        if self._plain is None and self._only in (None, "events"):
            self._output.write(rows.event_row(line) if self._is_table else line)


@contextlib.contextmanager
def ended_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Stop at SIGINT and SIGTERM, within the block; not by the loop's own handlers, which Windows lacks."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
