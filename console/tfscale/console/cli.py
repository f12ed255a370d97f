"""`tfscale-console`: reads the configuration, and starts the named command."""

from __future__ import annotations

import tfscale.core.early_interrupt

# isort: split
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path

import tfscale.core.quiet_grpc  # noqa: F401 - before all that import gRPC
from tfscale.console.doctor.doctor_command import run_doctor
from tfscale.console.exit_status import ExitStatus
from tfscale.console.export.headless_runs import export_recording, run_headless, run_once
from tfscale.console.export.task_commands import carry_out, restart_without, run_task_command
from tfscale.console.run.run_command import run_program
from tfscale.console.settings import options
from tfscale.console.settings.command_line import Command, Invocation, parse
from tfscale.console.settings.config import Configuration, configure
from tfscale.console.settings.console_log import start_console_log
from tfscale.console.sources.cluster_finder import is_named, local_runs
from tfscale.console.sources.source_factory import ClusterConnection, connect, open_replay
from tfscale.console.tui.launch import is_served, run_list, run_screens, run_server
from tfscale.core.access.orders import ORDERS, Order, Subject
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.standard_streams import fill_standard_streams
from tfscale.core.text import printable

tfscale.core.early_interrupt.restore()


def main() -> None:
    """Run, and exit: 0 well, 1 nothing collected, 2 usage or bad configuration, 3 unhealthy, 4 outdated (`--once`)."""
    fill_standard_streams()
    try:
        invocation = parse(WATCH, COMMANDS, sys.argv[1:], os.environ)
        status = invocation.command.run(invocation)
    except TfscaleError as error:
        _say(str(error))
        status = error.exit_status
    except BrokenPipeError:
        # Its reader has gone; Python would complain once more when it flushes stdout at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = ExitStatus.WELL
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)


def _say(line: str) -> None:
    """Write a line to stderr at every log level, and never to the log file: the line may hold a URL with a token."""
    print(f"tfscale-console: {printable(line)}", file=sys.stderr, flush=True)


def _configured(run: Callable[[Configuration], int]) -> Callable[[Invocation], int]:
    """Return a function that reads the settings and starts the log before it calls `run`."""

    @wraps(run)
    def run_configured(invocation: Invocation) -> int:
        configuration = configure(invocation)
        start_console_log(configuration.settings, logging.StreamHandler())
        return run(configuration)

    return run_configured


def _connect(console: Configuration) -> ClusterConnection:
    return connect(console.settings, console.origins, console.environment)


@_configured
def _watch(console: Configuration) -> int:
    settings = console.settings
    if settings.serve is not None and not is_served(console.environment):
        return run_server(settings, settings.serve, _say)
    if settings.once:
        return run_once(settings, _connect(console))
    if settings.headless:
        return run_headless(settings, _connect(console))
    if console.origins.get("out") == "--out":
        raise UsageError("--out needs --headless, --once or export")
    if not is_named(settings, console.environment) and len(local_runs(console.environment)) > 1:
        return run_list(settings, console.environment)
    return run_screens(settings, _connect(console), console.environment)


@_configured
def _run(console: Configuration) -> int:
    return run_program(console.settings, console.arguments, console.environment)


@_configured
def _order(console: Configuration) -> int:
    order, words = ORDERS[console.command], console.arguments
    if order.is_carried:
        order.check(words[-1])
    connection = _connect(console)
    if order.is_carried:
        return connection.run(partial(carry_out, order, words, connection))
    if not words:
        assert console.settings.without is not None
        return connection.run(partial(restart_without, console.settings.without, console.settings, connection))
    return connection.run(partial(run_task_command, order.name, words[0], console.settings, connection))


@_configured
def _doctor(console: Configuration) -> int:
    return run_doctor(console.settings, console.origins, console.environment)


@_configured
def _replay(console: Configuration) -> int:
    # What is replayed is a recording already: `record` of the configuration file is for watching.
    settings = replace(console.settings, record=None)
    if settings.serve is not None and not is_served(console.environment):
        return run_server(settings, settings.serve, _say)
    return run_screens(settings, open_replay(Path(console.arguments[0])), console.environment)


@_configured
def _export(console: Configuration) -> int:
    return export_recording(console.settings, Path(console.arguments[0]))


@_configured
def _config(console: Configuration) -> int:
    print(console.describe())
    return ExitStatus.WELL


def _report(invocation: Invocation) -> int:
    from tfscale.console.report.report_command import run_report

    return run_report(invocation.arguments, invocation.flags, invocation.environment)


WATCH = Command(
    name="",
    summary="Watch a TensorFlow cluster live, see which task makes it slow and why, and restart tasks.",
    run=_watch,
    options=options.WATCH,
)


def _order_command(order: Order) -> Command:
    """Return the command that gives an order."""
    usual = options.ORDER if order.subject is Subject.GANG else options.ON_CLUSTER
    return Command(
        name=order.name,
        summary=order.summary,
        run=_order,
        options={"restart": options.RESTART, "profile": options.PROFILE}.get(order.name, usual),
        argument=order.words,
        in_place="without" if order.name == "restart" else "",
        gives_orders=True,
    )


COMMANDS = (
    Command(
        name="run",
        summary="start a program on this machine, and show it",
        run=_run,
        options=options.RUN,
        takes_program=True,
    ),
    *map(_order_command, filter(lambda order: order.summary, ORDERS.values())),
    Command(
        name="doctor",
        summary="look for what would keep a cluster from training",
        run=_doctor,
        options=options.DOCTOR,
    ),
    Command(
        name="replay",
        summary="show a recording on the screen",
        run=_replay,
        options=options.REPLAY,
        argument="FILE",
    ),
    Command(
        name="export",
        summary="write a recording as JSON lines or tables",
        run=_export,
        options=options.EXPORT,
        argument="FILE",
    ),
    Command(
        name="report",
        summary="report what happened in recorded runs, and why; runs of different sizes show how it scales",
        run=_report,
        options=options.REPORT,
        argument="RECORDING ...",
    ),
    Command(
        name="config",
        summary="print the settings, and where each was given",
        run=_config,
        options=options.OPTIONS,
    ),
)
"""Commands besides watching."""


if __name__ == "__main__":
    main()
