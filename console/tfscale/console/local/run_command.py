"""`tfscale-console run`: starts a program on this machine, and shows it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from tfscale.console.engine.stop_condition import StopCondition
from tfscale.console.exit_status import ExitStatus
from tfscale.console.export.headless_runs import run_headless
from tfscale.console.local.own_run import OwnRun, OwnRunError, start_run
from tfscale.console.settings.config import Settings
from tfscale.console.sources.cluster_finder import cluster_of
from tfscale.console.sources.source_factory import connect_to
from tfscale.console.tui.launch import check_terminal, run_screens
from tfscale.core.cluster.cluster_spec import ClusterSpec

_logger = logging.getLogger(__name__)


def run_program(settings: Settings, command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Start the command, show it until its end or until the operator leaves, and return the exit status.

    Raises TfscaleError.
    """
    if not settings.headless:
        check_terminal(environment)
    run = start_run(command, settings.workers, environment)
    if not run.started:
        _logger.info("%s runs already", run.name)
    if settings.headless:
        return _headless(settings, run)
    return _on_screen(settings, run, environment)


def _headless(settings: Settings, run: OwnRun) -> int:
    until = StopCondition(settings.until or ("finished", "failed"), settings.seconds)
    try:
        status = run_headless(settings, connect_to(_spec(settings, run), settings), until)
    finally:
        if run.started:
            _stop(run)
    return ExitStatus.UNHEALTHY if until.met == "failed" and not settings.until else status


def _on_screen(settings: Settings, run: OwnRun, environment: Mapping[str, str]) -> int:
    try:
        spec = _spec(settings, run)
    except BaseException:
        _stop(run)
        raise
    status = run_screens(settings, connect_to(spec, settings), environment, lambda: _stop(run))
    if run.agents:
        _logger.info("%s goes on: tfscale-console shows it again", run.name)
    return status


def _spec(settings: Settings, run: OwnRun) -> ClusterSpec:
    agents = run.agents
    if not agents:
        raise OwnRunError(f"{run.name}: its agents ended at once")
    return cluster_of(agents[0], settings)


def _stop(run: OwnRun) -> None:
    if run.agents:
        _logger.info("%s is asked to end", run.name)
    run.stop()
