"""Start of the screens, in a terminal or for browsers. Textual is imported only then."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from tfscale.console.alerts.alert_setup import open_notifier, run_alerts, shown_by
from tfscale.console.alerts.notifier import Notifier
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.state_factory import resilient_states
from tfscale.console.engine.stop_condition import StopCondition
from tfscale.console.recording.recording_writer import ActiveRecording
from tfscale.console.settings.config import Settings
from tfscale.console.settings.console_log import start_console_log
from tfscale.console.settings.view_state import ViewFile, state_path
from tfscale.console.sources.cluster_finder import cluster_of, local_runs
from tfscale.console.sources.garbage import collect_seldom
from tfscale.console.sources.recorded import Player
from tfscale.console.sources.source_factory import ClusterConnection, connect_to
from tfscale.console.watch.past_file import past_of
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.local.local_agents import LocalAgent
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.settings.exit_status import ExitStatus

if TYPE_CHECKING:
    from tfscale.console.tui.app import ConsoleApp, Leaving

_logger = logging.getLogger(__name__)


def check_terminal(environment: Mapping[str, str]) -> None:
    """Raise UsageError where there is neither a terminal that draws nor a page of `--serve`."""
    if is_served(environment):
        return
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise UsageError("no terminal to draw on: use --headless, or export of a recording")
    if environment.get("TERM") == "dumb":
        raise UsageError("this terminal (TERM=dumb) cannot draw screens: use --headless, or --plain for lines of text")


def run_screens(
    settings: Settings,
    connection: ClusterConnection,
    environment: Mapping[str, str],
    end_run: Callable[[], None] | None = None,
) -> int:
    """Show the cluster until the operator leaves, and return the exit status. Raises TfscaleError.

    `end_run` ends a run that this console has started; it is called if the operator asks for it, or all tasks have
    ended. An error of the screens is no reason to end a training.
    """
    check_terminal(environment)
    return _show(settings, connection, environment, end_run)[1]


def run_list(settings: Settings, environment: Mapping[str, str]) -> int:
    """Show this machine's runs, and the run that the operator chooses, until they leave. Raises TfscaleError."""
    check_terminal(environment)
    from tfscale.console.tui.app import Leaving
    from tfscale.console.tui.runs_app import RunsApp
    from tfscale.console.tui.watched_run import WatchedRun
    from tfscale.console.tui.widgets.appearance.theme import ASCII, PALETTES, UNICODE, Appearance, theme_name

    shown: LocalAgent | None = None
    while True:
        start_console_log(settings, logging.NullHandler())
        name = theme_name(settings.theme, ViewFile.at(state_path(environment)).view.theme)
        look = Appearance(PALETTES[name], ASCII if _draws_ascii(settings, environment) else UNICODE)
        agent = RunsApp(partial(local_runs, environment), partial(WatchedRun, settings=settings), look, shown).run()
        start_console_log(settings, logging.StreamHandler())
        if agent is None:
            return ExitStatus.WELL
        shown = agent
        connection = connect_to(asyncio.run(cluster_of(agent, settings)), settings, environment)
        leaving, status = _show(settings, connection, environment, is_of_list=True)
        if leaving is not Leaving.TO_RUNS:
            return status


def _show(
    settings: Settings,
    connection: ClusterConnection,
    environment: Mapping[str, str],
    end_run: Callable[[], None] | None = None,
    is_of_list: bool = False,
) -> tuple[Leaving | None, int]:
    """Show the cluster, and return how the operator left and the exit status. Raises TfscaleError."""
    from tfscale.console.tui.app import ConsoleApp, Leaving
    from tfscale.console.tui.replay_app import ReplayApp

    source, spec = connection.source, connection.source.spec
    tape = ActiveRecording(spec)
    # A replay tells nobody; each page of --serve would tell everybody once more.
    notifier = open_notifier(settings) if source.is_live and not is_served(environment) else Notifier()
    alerts = None
    if notifier.channels:
        alerts = run_alerts(settings, notifier, shown_by(settings, connection), settings.record)

    def failed(problem: str) -> None:
        _logger.error("%s", problem)
        app.failed(problem)

    past = past_of(spec, settings, environment) if connection.channels is not None else None
    # Once nothing else can be refused: the same command would find its own empty recording.
    if settings.record is not None:
        tape.begin(settings.record, source.now())
    new_state = resilient_states(spec, failed, connection.baselines, past=past)
    engine = Engine(source, new_state, tape.write, connection.straggler_policy(settings))
    build = partial(ReplayApp, player=source) if isinstance(source, Player) else ConsoleApp
    app: ConsoleApp = build(
        engine,
        commands=connection.commands,
        tape=tape,
        ascii=_draws_ascii(settings, environment),
        until=StopCondition(settings.until, settings.seconds),
        view_file=ViewFile.at(state_path(environment)),
        read_only=settings.read_only,
        palette=settings.theme,
        owns_run=end_run is not None,
        bell=settings.bell,
        is_of_list=is_of_list,
        alerts=alerts,
    )
    notifier.tell = app.alert_failed
    _favour_keys(len(spec.tasks))
    # Textual draws on stderr: a line of the log would destroy the screen.
    start_console_log(settings, logging.NullHandler())
    leaving = connection.run(partial(_shown_with, app, notifier, settings))
    card = app.end_card(is_asked=leaving is Leaving.RUN_ENDS)
    if card is not None and leaving is not Leaving.TO_RUNS and not is_served(environment):
        print("\n".join(card.lines(shutil.get_terminal_size().columns)))
    if end_run is not None and leaving is Leaving.RUN_ENDS:
        end_run()
    if tape.problem:
        raise TfscaleError(f"--record {tape.problem}")
    return leaving, app.return_code or ExitStatus.WELL


async def _shown_with(app: ConsoleApp, notifier: Notifier, settings: Settings) -> Leaving | None:
    """Run the screens, and the notifier beside them up to its last message."""
    notifying = asyncio.create_task(notifier.run())
    try:
        return await app.run_async()
    finally:
        app.finish_alerts()
        start_console_log(settings, logging.StreamHandler())
        notifier.tell = _logger.warning
        notifier.close()
        await notifying


def run_server(settings: Settings, address: Address, tell: Callable[[str], None]) -> int:
    """Serve the screens to browsers, and print the URL, which every visitor needs. Raises TfscaleError."""
    if not settings.has_screen or settings.once:
        raise UsageError("--serve is the screen in a browser: leave out --headless, --plain and --once")
    try:
        from tfscale.console.tui.serve import serve
    except ModuleNotFoundError as error:
        raise UsageError(f"--serve needs {error.name}: pip install 'tfscale[serve]'") from None
    serve(sys.argv[1:], address, tell)
    return ExitStatus.WELL


def is_served(environment: Mapping[str, str]) -> bool:
    """Return True where this process draws on a page of `--serve`, and not on a terminal."""
    return "TEXTUAL_DRIVER" in environment


def _draws_ascii(settings: Settings, environment: Mapping[str, str]) -> bool:
    return settings.ascii or not (is_served(environment) or speaks_utf8(environment))


def speaks_utf8(environment: Mapping[str, str]) -> bool:
    """Return True where the terminal's locale is UTF-8, or not set at all."""
    locale = next((environment[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environment.get(name)), "UTF-8")
    return "utf8" in locale.lower().replace("-", "")


def _favour_keys(tasks: int) -> None:
    """Set Python so that keys wait neither for the garbage collector nor for a diagnosis in another thread."""
    collect_seldom(tasks)
    sys.setswitchinterval(0.001)
