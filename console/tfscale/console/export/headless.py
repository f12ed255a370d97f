"""The console without a screen: lines or tables of a source's events, for logs and scripts."""

from __future__ import annotations

import asyncio
import signal

from tfscale.console.analysis.stragglers.straggler_rule import Suspect
from tfscale.console.ending.run_memory import RunMemory
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import AgentDescribed, Event, FrameArrived, LinkChanged, LinkState
from tfscale.console.engine.model import OUTDATED, Snapshot
from tfscale.console.engine.stop_condition import StopCondition
from tfscale.console.export import rows
from tfscale.console.export.notify import Notifier
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
        notifier: Notifier | None = None,
    ) -> None:
        self._engine = engine
        self._output = output
        self._only = only
        self._is_table = is_table
        self._plain = PlainTeller(output) if is_plain else None
        self._until = until or StopCondition()
        self._notifier = notifier
        self._agent_lines = rows.AgentLines(engine.source.spec)
        self._was_outdated = False
        """True where the snapshot before told of the past."""
        self._suspect: Suspect | None = None
        self._states: dict[Task, tuple[object, ...]] = {}
        """Newest written state of each task, with its restart."""
        self.frames = 0
        """Number of frames so far."""
        self.memory = RunMemory()
        self.newest: Snapshot | None = None

    async def run(self) -> None:
        """Write until the end. Raises BrokenPipeError when the reader of the output has gone."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._engine.stop)
        try:
            await self._engine.run(self)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
        if self._plain is not None:
            self._plain.finish()
        self._output.flush()

    def event_folded(self, event: Event) -> None:
        self.memory.fold(event)
        if isinstance(event, FrameArrived):
            self.frames += 1
            self._write_frame(event)
        elif isinstance(event, AgentDescribed):
            self._write_event(self._agent_lines.line(event))
        elif (line := rows.event_line(event)) is not None:
            self._write_event(line)
            is_past = self._engine.source.is_live and self._engine.source.now() - event.at > OUTDATED
            if isinstance(event, LinkChanged) and event.state is not LinkState.CONNECTING and not is_past:
                self._notify(line)

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        self.memory.add(snapshot)
        self.newest = snapshot
        for diagnosis in snapshot.changes:
            self._write_event(rows.diagnosis_line(diagnosis, snapshot.at))
        self._notify_of(snapshot)
        self._write_suspect(snapshot)
        if self._plain is not None:
            self._plain.tell(snapshot)
        self._output.flush()
        if not snapshot.is_outdated and self._until.is_over(snapshot, self._engine.state):
            self._engine.stop()

    def _notify_of(self, snapshot: Snapshot) -> None:
        """Notify of news; of the past at the console's start, only of open diagnoses."""
        was_outdated, self._was_outdated = self._was_outdated, snapshot.is_outdated
        if snapshot.is_outdated:
            return
        news = [each for each in snapshot.findings.diagnoses if each.end is None] if was_outdated else snapshot.changes
        for diagnosis in news:
            self._notify(rows.diagnosis_line(diagnosis, snapshot.at))

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

    def _notify(self, line: Json) -> None:
        if self._notifier is not None:
            self._notifier.report(line)
