"""`tfscale-console`: reads the configuration, and starts the job that it names."""

from __future__ import annotations

import tfscale.core.early_interrupt

# isort: split
import logging
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import tfscale.core.quiet_grpc  # before all that import gRPC
from tfscale.console.doctor.doctor_command import run_doctor
from tfscale.console.exit_status import ExitStatus
from tfscale.console.export.headless_runs import export_recording, run_headless, run_once
from tfscale.console.export.task_commands import (
    TASK_COMMANDS,
    restart_without,
    run_task_command,
    uncordon,
)
from tfscale.console.local.run_command import run_program
from tfscale.console.settings.config import WITHOUT, Configuration, configure
from tfscale.console.settings.console_log import start_console_log
from tfscale.console.sources.source_factory import connect, open_replay
from tfscale.console.tui.launch import is_served, run_screens, run_server
from tfscale.core.cluster.task import Task
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.standard_streams import fill_standard_streams

tfscale.core.early_interrupt.restore()
ARGUMENTS = {
    "run": "[--workers N] -- PROGRAM",
    **dict.fromkeys(TASK_COMMANDS, "TASK"),
    "uncordon": "HOST",
    "replay": "FILE",
    "export": "FILE",
    "doctor": "",
    "config": "",
}
"""Commands besides watching, and the argument of each."""
_ORDERS = (*TASK_COMMANDS, "uncordon", WITHOUT)
"""Commands that reach into tasks."""


def main() -> None:
    """Run, and exit: 0 well, 1 nothing collected, 2 usage or bad configuration, 3 unhealthy (`--once`, `doctor`)."""
    fill_standard_streams()
    try:
        if sys.argv[1:2] == ["report"]:
            from tfscale.console.report import report_command

            sys.exit(report_command.run(sys.argv[2:]))
        status = run(configure(sys.argv[1:], os.environ, ARGUMENTS), os.environ)
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
    """Write a line to stderr, whatever the level of the log, and into no file of it: a URL may have a token."""
    print(f"tfscale-console: {line}", file=sys.stderr, flush=True)


def run(configuration: Configuration, environment: Mapping[str, str]) -> int:
    """Do what the configuration names, and return the exit status. Raises TfscaleError."""
    settings, origins = configuration.settings, configuration.origins
    start_console_log(settings, logging.StreamHandler())
    if settings.read_only and configuration.command and configuration.command[0] in _ORDERS:
        command, origin = configuration.command[0], origins["read_only"]
        raise UsageError(f"{origin}: {command} reaches into a task, and this console is read-only")
    if settings.serve is not None and configuration.command[:1] in ((), ("replay",)) and not is_served(environment):
        return run_server(settings, settings.serve, _say)
    match configuration.command:
        case ("run", *program):
            return run_program(settings, program, environment)
        case ("doctor",):
            return run_doctor(settings, origins, environment)
        case ("config",):
            print(configuration.describe())
            return ExitStatus.WELL
        case ("uncordon", host):
            connection = connect(settings, origins, environment)
            return connection.run(partial(uncordon, host, connection))
        case (name, host) if name == WITHOUT:
            connection = connect(settings, origins, environment)
            return connection.run(partial(restart_without, host, settings, connection))
        case (name, task) if name in TASK_COMMANDS:
            connection = connect(settings, origins, environment)
            return connection.run(partial(run_task_command, name, Task.parse(task), settings, connection))
        case ("export", path):
            return export_recording(settings, Path(path))
        case ("replay", path) if not settings.headless:
            return run_screens(settings, open_replay(settings, Path(path)), environment)
        case ("replay", path):
            return export_recording(settings, Path(path))
    if settings.once:
        return run_once(settings, connect(settings, origins, environment))
    if settings.headless:
        return run_headless(settings, connect(settings, origins, environment))
    if origins.get("out") == "--out":
        raise UsageError("--out needs --headless, --once or export")
    return run_screens(settings, connect(settings, origins, environment), environment)


if __name__ == "__main__":
    main()
