"""Table of the console's commands, each with the function that carries it out."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path

import tfscale.core.quiet_grpc  # noqa: F401 - before all that import gRPC
from tfscale.console.advice.advise_command import run_advise
from tfscale.console.doctor.doctor_command import run_doctor
from tfscale.console.export.headless_runs import export_recording, run_headless, run_once
from tfscale.console.export.profile_command import take_profiles
from tfscale.console.export.read_commands import print_events, print_log, print_orders
from tfscale.console.export.task_commands import carry_out, restart_without, run_task_command
from tfscale.console.metrics.target_file import write_targets
from tfscale.console.run.run_command import run_program
from tfscale.console.settings import options
from tfscale.console.settings.command_line import Command, Invocation
from tfscale.console.settings.config import Configuration, configure
from tfscale.console.settings.console_log import start_console_log, tell
from tfscale.console.sources.cluster_finder import find_cluster, is_named, local_runs
from tfscale.console.sources.source_factory import ClusterConnection, connect, open_replay
from tfscale.console.tui.launch import is_served, run_list, run_screens, run_server
from tfscale.console.watch.watch_command import run_watch
from tfscale.core.access.orders import ORDERS, Order, Subject
from tfscale.core.errors import UsageError
from tfscale.core.settings.exit_status import ExitStatus
from tfscale.core.settings.precedence import is_flag


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
        return run_server(settings, settings.serve, tell)
    if settings.once:
        return run_once(settings, partial(_connect, console))
    if not settings.has_screen:
        return run_headless(settings, _connect(console))
    if console.origins.get("out") == "--out":
        raise UsageError("--out needs --headless, --once or export")
    if not is_named(settings, console.environment) and len(local_runs(console.environment)) > 1:
        return run_list(settings, console.environment)
    return run_screens(settings, _connect(console), console.environment)


@_configured
def _stay(console: Configuration) -> int:
    return run_watch(console.settings, console.origins, console.environment)


@_configured
def _run(console: Configuration) -> int:
    return run_program(console.settings, console.program, console.environment)


@_configured
def _order(console: Configuration) -> int:
    order, words = ORDERS[console.command], console.arguments
    if order.is_carried:
        order.check(words[-1])
    connection = _connect(console)
    if order.name == "profile":
        return connection.run(partial(take_profiles, words, console.settings, connection))
    if order.is_carried:
        return connection.run(partial(carry_out, order, words, connection))
    if not words:
        assert console.settings.without is not None
        return connection.run(partial(restart_without, console.settings.without, console.settings, connection))
    return connection.run(partial(run_task_command, order.name, words[0], console.settings, connection))


@_configured
def _read(console: Configuration) -> int:
    settings, connection = console.settings, _connect(console)
    if console.command == "log":
        return connection.run(partial(print_log, console.arguments[0], settings, connection))
    read = {"events": print_events, "audit": print_orders}[console.command]
    return connection.run(partial(read, settings, connection))


@_configured
def _mcp(console: Configuration) -> int:
    from tfscale.console.explain.mcp_server import run_mcp

    return run_mcp(console)


@_configured
def _advise(console: Configuration) -> int:
    if len(console.arguments) > 1:
        raise UsageError(f"advise takes one recording, and {console.arguments[1]} is a second")
    recording = Path(console.arguments[0]) if console.arguments else None
    named = [origin for name in ("cluster", "agent", "slurm") if is_flag(origin := console.origins.get(name))]
    if recording is not None and named:
        raise UsageError(f"advise: {recording} and {named[0]} are two runs: give one")
    return run_advise(recording, console.program, console.settings.json, partial(_connect, console))


@_configured
def _doctor(console: Configuration) -> int:
    return run_doctor(console.settings, console.origins, console.environment)


def _notify(invocation: Invocation) -> int:
    from tfscale.console.alerts.notify_command import run_notify

    flags = dict(invocation.flags)
    tested = flags.pop("test", None)
    settings = configure(replace(invocation, flags=flags)).settings
    start_console_log(settings, logging.StreamHandler())
    return run_notify(settings, tested)


@_configured
def _targets(console: Configuration) -> int:
    return write_targets(console.settings, find_cluster(console.settings, console.origins, console.environment))


@_configured
def _replay(console: Configuration) -> int:
    # What is replayed is a recording already: `record` of the configuration file is for watching.
    settings = replace(console.settings, record=None)
    if settings.serve is not None and not is_served(console.environment):
        return run_server(settings, settings.serve, tell)
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


def _gate(invocation: Invocation) -> int:
    from tfscale.console.gate.gate_command import run_gate

    return run_gate(invocation.arguments, invocation.flags)


def _runs(invocation: Invocation) -> int:
    from tfscale.console.baselines.runs_command import list_runs

    return list_runs(invocation.arguments, invocation.flags, invocation.environment)


def _init(invocation: Invocation) -> int:
    from tfscale.console.init.init_command import run_init

    return run_init(invocation.flags, invocation.environment)


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
        argument=f"{order.words} ..." if order.name == "profile" else order.words,
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
    Command(
        name="init",
        summary="write a cluster file from a few words, and look for what would keep it from training",
        run=_init,
        options=options.INIT,
    ),
    *map(_order_command, filter(lambda order: order.summary, ORDERS.values())),
    Command(
        name="log",
        summary="print the end of a task's log",
        run=_read,
        options=options.LOG,
        argument="TASK",
    ),
    Command(
        name="events",
        summary="print the events of a cluster that its agents remember",
        run=_read,
        options=options.READ,
    ),
    Command(
        name="audit",
        summary="print the orders that the agents were given, and by whom",
        run=_read,
        options=options.READ,
    ),
    Command(
        name="notify",
        summary="list the receivers of alerts, or send each a message (--test)",
        run=_notify,
        options=options.NOTIFY,
    ),
    Command(
        name="watch",
        summary="stay, and watch runs as they come and go: recordings, reports, alerts",
        run=_stay,
        options=options.STAY,
    ),
    Command(
        name="mcp",
        summary="answer a language model's questions about runs, over stdio (Model Context Protocol)",
        run=_mcp,
        options=options.MCP,
    ),
    Command(
        name="advise",
        summary="say what would make a run faster, by a model, and how to try it; before a run, by rules",
        run=_advise,
        options=options.READ,
        argument="RECORDING ...",
        takes_program=True,
        may_lack_program=True,
    ),
    Command(
        name="doctor",
        summary="look for what would keep a cluster from training",
        run=_doctor,
        options=options.DOCTOR,
    ),
    Command(
        name="targets",
        summary="write the pages of a cluster's agents as a file of targets for Prometheus",
        run=_targets,
        options=options.TARGETS,
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
        name="compare",
        summary="say whether new runs are slower than those before; each is a file or a folder of runs",
        run=_gate,
        options=options.GATE,
        argument="BASE NEW",
    ),
    Command(
        name="runs",
        summary="list the earlier runs of each program, how fast they were, and what differs; or draw them",
        run=_runs,
        options=options.EARLIER,
        argument="WORD ...",
    ),
    Command(
        name="config",
        summary="print the settings, and where each was given",
        run=_config,
        options=options.OPTIONS,
    ),
)
"""Commands besides watching."""
