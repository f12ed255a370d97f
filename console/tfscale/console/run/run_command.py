"""`tfscale-console run`: starts a program on this machine, and shows it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial

from tfscale.console.engine.engine import Engine
from tfscale.console.engine.model import TaskView
from tfscale.console.engine.state_factory import states
from tfscale.console.engine.stop_condition import StopCondition
from tfscale.console.export.headless_runs import run_headless
from tfscale.console.export.snapshot_once import SnapshotOnce
from tfscale.console.run.own_run import OwnRun, OwnRunError, start_run
from tfscale.console.settings.config import Settings
from tfscale.console.sources.cluster_finder import cluster_of
from tfscale.console.sources.source_factory import connect_to
from tfscale.console.tui.launch import check_terminal, run_screens
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.failure.clues import find_clue
from tfscale.core.log_clues import EXPLAINED
from tfscale.core.settings.exit_status import ExitStatus
from tfscale.core.text import exit_phrase

_logger = logging.getLogger(__name__)


def run_program(settings: Settings, command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Start the command, show it until its end or until the operator leaves, and return the exit status.

    Raises TfscaleError.
    """
    if settings.has_screen:
        check_terminal(environment)
    run = start_run(command, settings.workers, environment, partial(_is_over, settings, environment))
    if not run.started:
        _logger.info("%s runs already", run.name)
    if not settings.has_screen:
        return _headless(settings, run, environment)
    return _on_screen(settings, run, environment)


def _headless(settings: Settings, run: OwnRun, environment: Mapping[str, str]) -> int:
    until = StopCondition(settings.until or ("finished", "failed"), settings.seconds)
    try:
        status = run_headless(settings, connect_to(_spec(settings, run), settings, environment), until)
    finally:
        if run.started:
            if not until.has_ended:
                _logger.info("%s is asked to end", run.name)
            run.stop()
    if until.failed is not None:
        _logger.error("%s", _failure(until.failed))
        return status if settings.until else ExitStatus.UNHEALTHY
    if run.started and until.met is None and not (until.timed_out or until.has_ended):
        _logger.error("%s was ended before it had finished", run.name)
        return ExitStatus.NOTHING
    return status


def _failure(view: TaskView) -> str:
    """Return a task's failure, with the reason from its log if any, and the path of the log."""
    assert view.status is not None
    end, log = view.status.exit, view.description.log_path if view.description else "on its host"
    clue = find_clue(end.log, end.code, end.signal) if end else None
    # A program that was not started has a reason; another one has a clue at most.
    why = view.status.reason if view.status.pid is None else clue.line.removeprefix(EXPLAINED) if clue else ""
    how = f"{view.task} {exit_phrase(end)}{': ' if why else ''}{why}"
    return f"{how}; its log is {log}"


def _is_over(settings: Settings, environment: Mapping[str, str], run: OwnRun) -> bool:
    """Decide whether all tasks of a run have ended, and its agents only wait for a console."""
    connection = connect_to(_spec(settings, run), settings, environment)
    once = SnapshotOnce(Engine(connection.source, states(connection.source.spec)))
    snapshot = connection.run(once.run)
    is_over = snapshot is not None and snapshot.is_over
    if is_over:
        _logger.info("%s has ended, and is started again", run.name)
    return is_over


def _on_screen(settings: Settings, run: OwnRun, environment: Mapping[str, str]) -> int:
    try:
        spec = _spec(settings, run)
    except BaseException:
        if run.started:
            run.stop()
        raise
    status = run_screens(settings, connect_to(spec, settings, environment), environment, run.stop)
    if run.agents:
        _logger.info("%s goes on: tfscale-console shows it again", run.name)
    return status


def _spec(settings: Settings, run: OwnRun) -> ClusterSpec:
    agents = run.agents
    if not agents:
        raise OwnRunError(f"{run.name}: its agents ended at once")
    return asyncio.run(cluster_of(agents[0], settings))
