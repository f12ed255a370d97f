"""`tfscale-console`: reads the configuration, builds the source, hands it to the screens or to the headless export."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TextIO, TypeVar

from tfscale.console.engine.engine import Engine
from tfscale.console.engine.resilient_analysis import ResilientAnalysis
from tfscale.console.engine.state import ClusterState
from tfscale.console.engine.stop_condition import StopCondition
from tfscale.console.export import rows
from tfscale.console.export.headless import Headless
from tfscale.console.export.notify import Notifier
from tfscale.console.export.outputs import Csv, JsonLines, Output, Parquet, Rotated
from tfscale.console.export.snapshot_once import SnapshotOnce, is_healthy, snapshot_line
from tfscale.console.export.task_commands import TASK_COMMANDS, run_task_command
from tfscale.console.recording.recording_reader import Recording
from tfscale.console.recording.recording_writer import ActiveRecording
from tfscale.console.settings.config import Configuration, Settings, configure
from tfscale.console.settings.view_state import ViewFile, state_path
from tfscale.console.sources.recorded import Player, RecordedSource
from tfscale.console.sources.source_factory import Connection, connect
from tfscale.console.transport.commands import NoCommands
from tfscale.core.analysis.diagnostician import Diagnostician
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.task import Task
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.logs import start_log

_logger = logging.getLogger(__name__)
WELL, NOTHING, UNHEALTHY = 0, 1, 3
"""Exit statuses; 2 is of UsageError."""
ARGUMENTS = {**dict.fromkeys(TASK_COMMANDS, "TASK"), "replay": "FILE", "export": "FILE", "config": ""}
"""What may be asked for instead of watching, by its first word."""
T = TypeVar("T")
Job = Callable[[], Coroutine[Any, Any, T]]
_REPLAYED = NoCommands("this is a replay: it is over")


def main() -> None:
    """Run, and exit: 0 well, 1 nothing collected, 2 usage or bad configuration, 3 unhealthy (`--once`)."""
    try:
        if sys.argv[1:2] == ["report"]:
            from tfscale.console.report import report_command

            sys.exit(report_command.run(sys.argv[2:]))
        status = run(configure(sys.argv[1:], os.environ, ARGUMENTS), os.environ)
    except TfscaleError as error:
        print(f"tfscale-console: {error}", file=sys.stderr)
        status = error.exit_status
    except BrokenPipeError:
        # Its reader has gone; Python would complain once more when it flushes stdout at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = WELL
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)


def run(configuration: Configuration, environment: Mapping[str, str]) -> int:
    """What the configuration asks for; the exit status."""
    settings = configuration.settings
    _start_log(settings, logging.StreamHandler())
    if settings.read_only and configuration.command and configuration.command[0] in TASK_COMMANDS:
        origin = configuration.origins["read_only"]
        raise UsageError(f"{origin}: {configuration.command[0]} reaches into a task, and this console may only look")
    if settings.serve is not None and configuration.command[:1] in ((), ("replay",)) and not is_served(environment):
        return run_server(settings, settings.serve)
    match configuration.command:
        case ("config",):
            print(configuration.describe())
            return WELL
        case (name, task) if name in TASK_COMMANDS:
            connection = connect(settings, configuration.origins, environment)
            return _closing(connection, partial(run_task_command, name, Task.parse(task), settings, connection))
        case ("export", path):
            return export(Path(path), settings)
        case ("replay", path) if not settings.headless:
            return run_screens(settings, _replay(Path(path), settings), environment)
        case ("replay", path):
            return export(Path(path), settings)
    if settings.once:
        return run_once(settings, connect(settings, configuration.origins, environment))
    if settings.headless:
        return run_headless(settings, connect(settings, configuration.origins, environment))
    if configuration.origins.get("out") == "--out":
        raise UsageError("--out needs --headless, --once or export")
    return run_screens(settings, connect(settings, configuration.origins, environment), environment)


def _start_log(settings: Settings, otherwise: logging.Handler) -> None:
    """Send the log to the file that the settings name, else to `otherwise`. Raises UsageError."""
    handler = otherwise
    if settings.log_file is not None:
        try:
            handler = logging.FileHandler(settings.log_file, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise UsageError(f"--log-file {settings.log_file}: {error.strerror}") from None
    start_log(handler, settings.log_level, settings.log_format)


def _replay(path: Path, settings: Settings) -> Connection:
    if settings.record is not None:
        raise UsageError("--record: a replay is recorded already")
    return Connection(Player(Recording(path)), _REPLAYED)


def run_once(settings: Settings, connection: Connection) -> int:
    """Print one snapshot. Raises UsageError where it cannot be written."""
    once = SnapshotOnce(Engine(connection.source, states(connection.source.spec)))
    snapshot = _closing(connection, once.run)
    if snapshot is None:
        return NOTHING
    text = json.dumps(snapshot_line(snapshot), ensure_ascii=False) + "\n"
    if (out := settings.out) is None:
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        _writing(out, lambda: out.write_text(text, encoding="utf-8"))
    if not once.collected:
        _log_nothing_collected(connection.source.spec)
        return NOTHING
    return WELL if is_healthy(snapshot) else UNHEALTHY


def run_headless(settings: Settings, connection: Connection) -> int:
    """Write what comes until the end, and say on stderr if there was nothing. Raises TfscaleError."""
    spec = connection.source.spec
    tape = ActiveRecording(spec)
    if settings.record is not None:
        tape.begin(settings.record, connection.source.now())
    engine = Engine(connection.source, resilient_states(spec, lambda text: _logger.error("%s", text)), tape.take)
    until = StopCondition(settings.until, settings.seconds)
    notifier = Notifier(settings.on_event, settings.webhook)
    collected = _write(settings, engine, until, notifier, tape, lambda job: _closing(connection, job))
    if not collected:
        _log_nothing_collected(spec)
        return NOTHING
    return NOTHING if settings.until and until.met is None and until.has_ended else WELL


def export(path: Path, settings: Settings) -> int:
    """Write what a recording holds, and on stderr where it is damaged. Raises TfscaleError."""
    recording = Recording(path)
    engine = Engine(RecordedSource(recording.spec, recording.events(), recording.begin), states(recording.spec))
    until = StopCondition(settings.until, settings.seconds)
    collected = _write(
        settings, engine, until, Notifier(), ActiveRecording(recording.spec), lambda job: asyncio.run(job())
    )
    if recording.damage:
        _logger.warning("%s", recording.damage)
    return WELL if collected else NOTHING


def _write(
    settings: Settings,
    engine: Engine,
    until: StopCondition,
    notifier: Notifier,
    tape: ActiveRecording,
    run: Callable[[Job[int]], int],
) -> int:
    """Headless, from opening its output to closing it; how many frames came. Raises TfscaleError."""

    async def job() -> int:
        output = open_output(settings, engine.source.spec, engine.source.now())
        headless = Headless(
            engine,
            output,
            only=settings.only,
            is_table=settings.format != "jsonl",
            until=until,
            notifier=notifier,
        )
        notifying = asyncio.create_task(notifier.run())
        recording = asyncio.create_task(tape.run())
        try:
            await headless.run()
            notifier.close()
            await notifying
        finally:
            for job_task in (notifying, recording):
                job_task.cancel()
            await asyncio.gather(notifying, recording, return_exceptions=True)
            if settings.out is not None:
                output.close()
        if tape.problem:
            raise TfscaleError(f"--record {tape.problem}")
        return headless.collected

    return _writing(settings.out, lambda: run(job))


def open_output(settings: Settings, spec: ClusterSpec, now: float) -> Output:
    """Where the settings want lines or tables to go. Raises UsageError and OSError."""

    def begin() -> Output:
        if settings.format == "parquet" and settings.out is not None:
            return Parquet(settings.out.open("wb"), rows.COLUMNS[settings.only or ""])
        file: TextIO = sys.stdout if settings.out is None else settings.out.open("w", encoding="utf-8")
        if settings.format == "csv":
            return Csv(file, rows.COLUMNS[settings.only or ""])
        return JsonLines(file, rows.header(spec, now))

    if settings.rotate is None or settings.out is None:
        return begin()
    return Rotated(settings.out, settings.rotate, settings.keep, begin)


def _writing(out: Path | None, write: Callable[[], T]) -> T:
    try:
        return write()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise TfscaleError(f"--out {out or '(stdout)'}: {error.strerror}: what came after that is lost") from None


def _closing(connection: Connection, job: Job[T]) -> T:
    async def run() -> T:
        try:
            return await job()
        finally:
            await connection.close()

    return asyncio.run(run())


def states(spec: ClusterSpec) -> Callable[[], ClusterState]:
    """Makes states in which nothing was folded yet."""
    return lambda: ClusterState(spec, Diagnostician(spec))


def resilient_states(spec: ClusterSpec, report: Callable[[str], None]) -> Callable[[], ClusterState]:
    """The same, for who watches for weeks: a diagnosis that fails is told, and all else goes on."""
    return lambda: ClusterState(spec, ResilientAnalysis(Diagnostician(spec), report))


def run_screens(settings: Settings, connection: Connection, environment: Mapping[str, str]) -> int:
    """Show the cluster until the operator leaves. Raises UsageError."""
    served = is_served(environment)
    if not served and not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise UsageError("no terminal to draw on: use --headless")
    from tfscale.console.tui.app import ConsoleApp

    spec = connection.source.spec
    tape = ActiveRecording(spec)
    if settings.record is not None:
        tape.begin(settings.record, connection.source.now())

    def failed(problem: str) -> None:
        _logger.error("%s", problem)
        app.failed(problem)

    app = ConsoleApp(
        Engine(connection.source, resilient_states(spec, failed), tape.take),
        connection.commands,
        tape,
        ascii=settings.ascii or not (served or speaks_utf8(environment)),
        until=StopCondition(settings.until, settings.seconds),
        view_file=ViewFile.at(state_path(environment)),
        read_only=settings.read_only,
        palette=settings.theme,
    )
    # What is loaded by now stays. Looking through it for garbage, again and again, would keep keys waiting; so would
    # what the streams of many tasks have under way.
    gc.freeze()
    gc.set_threshold(10_000 + 30 * len(spec.tasks), 5, 5)
    # So that a key need not wait for long while a diagnosis runs in a thread.
    sys.setswitchinterval(0.001)
    # Textual draws on stderr: a line of the log would destroy the screen.
    _start_log(settings, logging.NullHandler())
    app.run()
    if tape.problem:
        raise TfscaleError(f"--record {tape.problem}")
    return app.return_code or WELL


def is_served(environment: Mapping[str, str]) -> bool:
    """Whether this process draws on a page of `--serve`, and not on a terminal."""
    return "TEXTUAL_DRIVER" in environment


def run_server(settings: Settings, address: Address) -> int:
    """Serve the screens to browsers. Raises TfscaleError."""
    if settings.headless or settings.once:
        raise UsageError("--serve is the screen in a browser: leave out --headless and --once")
    try:
        from tfscale.console.tui.serve import serve
    except ModuleNotFoundError as error:
        raise UsageError(f"--serve needs {error.name}: pip install 'tfscale[serve]'") from None
    serve(sys.argv[1:], address)
    return WELL


def speaks_utf8(environment: Mapping[str, str]) -> bool:
    """Whether the terminal's locale is UTF-8; one that is not set at all is taken to be."""
    locale = next((environment[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environment.get(name)), "UTF-8")
    return "utf8" in locale.lower().replace("-", "")


def _log_nothing_collected(spec: ClusterSpec) -> None:
    agents = [str(agent) for agent in spec.agents.values()]
    shown = ", ".join(agents[:4]) + (f" and {len(agents) - 4} more" if len(agents) > 4 else "")
    _logger.error("nothing collected: no agent sent a frame; are they running (%s)?", shown)


if __name__ == "__main__":
    main()
