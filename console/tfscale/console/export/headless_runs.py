"""Runs without a screen: one snapshot, a live run, and the export of a recording."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TextIO, TypeVar

from tfscale.console.alerts.alert_setup import open_notifier, run_alerts, shown_by
from tfscale.console.alerts.notifier import Notifier
from tfscale.console.alerts.run_alerts import RunAlerts
from tfscale.console.ending.end_card import EndCard, end_card
from tfscale.console.engine.engine import Engine, EngineListener
from tfscale.console.engine.state_factory import resilient_states, states
from tfscale.console.engine.stop_condition import StopCondition
from tfscale.console.explain.explanation import explanation
from tfscale.console.export import rows
from tfscale.console.export.headless import Headless
from tfscale.console.export.outputs import Csv, JsonLines, Output, Parquet, Rotated, TextLines
from tfscale.console.export.plain import snapshot_lines
from tfscale.console.export.snapshot_once import SnapshotOnce, snapshot_line, verdict
from tfscale.console.export.trace.trace_run import export_trace
from tfscale.console.export.whole_run import hear
from tfscale.console.metrics.run_metrics import RunMetrics
from tfscale.console.metrics.run_page import served_runs
from tfscale.console.recording.recording_folder import open_recording
from tfscale.console.recording.recording_writer import ActiveRecording
from tfscale.console.settings.config import Settings
from tfscale.console.settings.console_log import show
from tfscale.console.sources.garbage import collect_seldom
from tfscale.console.sources.recorded import RecordedSource
from tfscale.console.sources.source_factory import ClusterConnection, Job
from tfscale.console.tracking.tracker import KINDS, Destination
from tfscale.console.tracking.tracking import Tracking
from tfscale.console.transport.channels import CommandError
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.errors import TfscaleError
from tfscale.core.files.whole_file import write_output
from tfscale.core.settings.exit_status import ExitStatus
from tfscale.core.text import exit_clause

_logger = logging.getLogger(__name__)
T = TypeVar("T")


def run_once(settings: Settings, connect: Callable[[], ClusterConnection]) -> int:
    """Print one snapshot, and return the exit status. Raises UsageError where it cannot be written."""
    begin, wait = time.monotonic(), settings.wait or 0.0
    connection = _within(wait, connect)
    engine = Engine(connection.source, states(connection.source.spec, connection.baselines))
    once = SnapshotOnce(engine, begin + wait - time.monotonic())
    snapshot = connection.run(once.run)
    if snapshot is None:
        return ExitStatus.NOTHING
    told = explanation(snapshot) if settings.explain else snapshot_line(snapshot)
    lines = snapshot_lines(snapshot) if settings.plain else [json.dumps(told, ensure_ascii=False)]
    text = "".join(f"{line}\n" for line in lines)
    if (out := settings.out) is None:
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        _written(out, partial(write_output, out, text))
    if not once.frames:
        _log_nothing_collected(connection.source.spec)
        return ExitStatus.NOTHING
    return ExitStatus.OUTDATED if snapshot.is_outdated else _STATUSES[verdict(snapshot)]


_STATUSES = {True: ExitStatus.WELL, False: ExitStatus.UNHEALTHY, None: ExitStatus.NOT_YET}
"""Exit status of each verdict."""


def _within(seconds: float, connect: Callable[[], ClusterConnection]) -> ClusterConnection:
    """Connect, again each second for so many seconds where no agent answers. Raises UsageError and CommandError."""
    until = time.monotonic() + seconds
    while True:
        try:
            return connect()
        except CommandError:
            if time.monotonic() >= until:
                raise
            time.sleep(1.0)


def run_headless(settings: Settings, connection: ClusterConnection, until: StopCondition | None = None) -> int:
    """Write events `until` the end, by default the settings'; return the exit status. Raises TfscaleError."""
    until = until or StopCondition(settings.until, settings.seconds)
    spec = connection.source.spec
    tape = ActiveRecording(spec)
    new_state = resilient_states(spec, lambda text: _logger.error("%s", text), connection.baselines)
    engine = Engine(connection.source, new_state, tape.write, connection.straggler_policy(settings))
    alerts = run_alerts(settings, open_notifier(settings), shown_by(settings, connection), settings.record)
    metrics = [] if settings.metrics is None else [RunMetrics(spec)]
    tracking = Tracking(settings.track)
    listeners: list[EngineListener] = [*metrics, tracking]
    with served_runs(settings.metrics, lambda: metrics, spec, insecure=settings.insecure):
        # Once nothing else can be refused: the same command would find its own empty recording.
        if settings.record is not None:
            tape.begin(settings.record, connection.source.now())
        collect_seldom(len(spec.tasks))
        try:
            frames = _write(settings, engine, until, tape, run=connection.run, alerts=alerts, listeners=listeners)
        finally:
            tracking.close()
    if not frames:
        _log_nothing_collected(spec)
        return ExitStatus.NOTHING
    return ExitStatus.NOTHING if until.conditions and until.met is None and until.has_ended else ExitStatus.WELL


def export_recording(settings: Settings, path: Path) -> int:
    """Write the contents of a recording, log where it is damaged, and return the exit status. Raises TfscaleError."""
    recording = open_recording(path)
    engine = Engine(RecordedSource(recording.spec, recording.events(), recording.begin), states(recording.spec))
    until = StopCondition(settings.until, settings.seconds)
    if settings.format == "perfetto" and settings.out is not None:
        frames = _written(settings.out, partial(export_trace, engine, until, settings.out, settings.profiles))
    elif settings.format in KINDS:
        frames = _export_to_tracker(Destination(settings.format, str(settings.out or "")), engine, until)
    else:
        tape = ActiveRecording(recording.spec)
        frames = _write(settings, engine, until, tape, run=lambda job: asyncio.run(job()))
    if recording.damage:
        _logger.warning("%s", recording.damage)
    return ExitStatus.WELL if frames else ExitStatus.NOTHING


def _export_to_tracker(destination: Destination, engine: Engine, until: StopCondition) -> int:
    """Add a whole run to a tracker, and return the number of frames. Raises TfscaleError."""
    tracking = Tracking([destination], is_live=False)
    frames = hear(engine, until, tracking)
    tracking.close()
    if tracking.has_failed:
        raise TfscaleError(f"--format {destination.kind}: not all of the run is there")
    return frames


def _write(
    settings: Settings,
    engine: Engine,
    until: StopCondition,
    tape: ActiveRecording,
    *,
    run: Callable[[Job[int]], int],
    alerts: RunAlerts | None = None,
    listeners: Sequence[EngineListener] = (),
) -> int:
    """Run headless, from opening the output to closing it, and return the number of frames. Raises TfscaleError."""

    async def job() -> int:
        output = open_output(settings, engine.source.spec, engine.source.now())
        headless = Headless(
            engine,
            output,
            only=settings.only,
            is_table=settings.format != "jsonl",
            is_plain=settings.plain,
            until=until,
            alerts=alerts,
            listeners=listeners,
        )
        notifier = alerts.notifier if alerts is not None else Notifier()
        notifying, recording = asyncio.create_task(notifier.run()), asyncio.create_task(tape.run())
        try:
            await headless.run()
            notifier.close()
            await notifying
        finally:
            notifying.cancel()
            recording.cancel()
            outcomes = await asyncio.gather(notifying, recording, return_exceptions=True)
            if settings.out is not None:
                output.close()
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        if engine.source.is_live and headless.newest is not None:
            is_early = settings.plain and (headless.is_interrupted or until.met == "failed")
            asked = _failure(until) if is_early else ""
            _print_card(end_card(headless.newest, headless.memory, settings.record, asked=asked))
        if tape.problem:
            raise TfscaleError(f"--record {tape.problem}")
        return headless.frames

    return _written(settings.out, lambda: run(job))


def _failure(until: StopCondition) -> str:
    """Return the manner in which a run has ended so far, whose end this console does not see."""
    failed = until.failed
    if failed is None or failed.status is None:
        return "goes on without this console"
    return f"{failed.task} {exit_clause(failed.status.exit)}, and others go on without this console"


def _print_card(card: EndCard | None) -> None:
    if card is not None:
        show("\n".join(card.lines(shutil.get_terminal_size().columns)))


def open_output(settings: Settings, spec: ClusterSpec, now: float) -> Output:
    """Open the output that the settings name for lines or tables. Raises UsageError and OSError."""

    def begin() -> Output:
        if settings.format == "parquet" and settings.out is not None:
            return Parquet(settings.out.open("wb"), rows.COLUMNS[settings.only or ""])
        file: TextIO = sys.stdout if settings.out is None else settings.out.open("w", encoding="utf-8")
        if settings.format == "csv":
            return Csv(file, rows.COLUMNS[settings.only or ""])
        if settings.plain:
            return TextLines(file)
        return JsonLines(file, rows.header(spec, now))

    if settings.rotate is None or settings.out is None:
        return begin()
    return Rotated(settings.out, settings.rotate, settings.keep, begin)


def _written(out: Path | None, write: Callable[[], T]) -> T:
    """Return the result of `write`. Raises TfscaleError where `write` fails, unless the reader of the pipe has gone."""
    try:
        return write()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise TfscaleError(f"--out {out or '(stdout)'}: {error.strerror}: what came after that is lost") from None


def _log_nothing_collected(spec: ClusterSpec) -> None:
    agents = [str(agent) for agent in spec.agents.values()]
    names = ", ".join(agents[:4]) + (f" and {len(agents) - 4} more" if len(agents) > 4 else "")
    _logger.error("nothing collected: no agent of this cluster has sent a frame; are they running (%s)?", names)
