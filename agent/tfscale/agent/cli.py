"""Entry point of `tfscale-agent`: from arguments to AgentSettings, to a running daemon, to its exit status."""

from __future__ import annotations

import tfscale.core.early_interrupt

# isort: split
import contextlib
import logging
import os
import resource
import signal
import sys
from argparse import Action
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import tfscale.core.quiet_grpc  # noqa: F401 - before all that import gRPC
from tfscale.agent import probe_install, process_one
from tfscale.agent.host.container import container_defaults, served_address
from tfscale.agent.host.host_gpus import with_gpus
from tfscale.agent.host.host_names import refuse_two_names
from tfscale.agent.host.own_cluster import OwnCluster, own_cluster
from tfscale.agent.host.own_tasks import given_flags, own_tasks
from tfscale.agent.host.task_roles import FLAGS as ROLE_FLAGS
from tfscale.agent.life import hand_over, host_agents
from tfscale.agent.own_log import OwnLog
from tfscale.agent.settings import OPTIONS, SETTINGS, AgentSettings
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.local import open_files
from tfscale.core.cluster.placement.placement import may_move
from tfscale.core.cluster.security import uses_tls
from tfscale.core.cluster.task import Task
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.logs import start_log
from tfscale.core.settings.precedence import CommandLine, add_flags, choose, flag, is_flag, split_command
from tfscale.core.settings.user_folders import user_state_folder
from tfscale.core.standard_streams import fill_standard_streams
from tfscale.core.text import printable
from tfscale.core.version import version_line
from tfscale.core.working_folder import check_working_folder

tfscale.core.early_interrupt.restore()
_logger = logging.getLogger(__name__)

_CERTIFICATES, _SERVICE = "certificates", "install-service"
"""First words of the commands whose modules are imported for them alone."""
_COMMANDS = {
    _SERVICE: "write a systemd unit that runs the agent with the flags and the program that follow",
    probe_install.COMMAND: "let the probe in where a launcher loses PYTHONPATH",
    _CERTIFICATES: "make the certificates of a cluster, and of its operators",
    hand_over.COMMAND: "have an agent leave while its task goes on; takes the agent's flags",
}
_INTERRUPTED = 130
"""Exit status after ctrl-C while the task does not run, as a shell gives it."""
_FILES = 32
"""Open files that a process and each of its agents need at least: one agent was seen to have up to 40."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run an agent, install the probe's second way in, or make certificates, and return the exit status."""
    fill_standard_streams()
    words = sys.argv[1:] if arguments is None else arguments
    try:
        if words[:1] == [probe_install.COMMAND]:
            return probe_install.main(words[1:])
        if words[:1] == [_CERTIFICATES]:
            from tfscale.agent.certificates import certificate_command

            return certificate_command.main(words[1:])
        if words[:1] == [_SERVICE]:
            from tfscale.agent.systemd import service_unit

            return service_unit.main(words[1:], os.environ, read_settings)
        if words[:1] == [hand_over.COMMAND]:
            for sentence in hand_over.hand_over(read_settings(words[1:], os.environ, needs_program=False)):
                print(sentence)
            return 0
        agents = with_gpus(read_settings(words, os.environ), os.environ)
        open_files.allow(_FILES * (1 + len(agents)))
        open_files.allow_many()
    except TfscaleError as error:
        _say(str(error))
        return error.exit_status
    if os.getpid() == 1:
        process_one.go_on_as_child()
        agents = tuple(replace(each, ends_container=True) for each in agents)
    first = agents[0]
    names = ",".join(map(host_agents.name_of, agents))
    log = OwnLog(sys.stderr)
    start_log(log, first.log_level, first.log_format, names)
    try:
        status = host_agents.serve(agents, lambda: _tell_of_console(agents[0], log))
        return status if status >= 0 else _end_by(-status)
    except TfscaleError as error:
        _logger.error("%s", error)
        return error.exit_status
    except KeyboardInterrupt:
        return _INTERRUPTED


def _end_by(number: int) -> int:
    """End this process by the signal that has ended its task, for the shell or launcher that waits for the process."""
    logging.shutdown()
    with contextlib.suppress(OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number


def _tell_of_console(settings: AgentSettings, log: OwnLog) -> None:
    if settings.show_output and settings.watched_by:
        log.say(_own(f"{settings.run}: {settings.watched_by} shows it"))
    if settings.others_unknown:
        log.say(_own(f"{settings.run}: {settings.others_unknown}"))


def _say(line: str) -> None:
    """Write a line to stderr; the agent goes on where stderr can no longer be written."""
    with contextlib.suppress(OSError):
        print(_own(printable(line)), file=sys.stderr, flush=True)


def _own(line: str) -> str:
    return f"tfscale-agent: {line}"


def read_settings(
    arguments: Sequence[str], environment: Mapping[str, str], *, needs_program: bool = True
) -> tuple[AgentSettings, ...]:
    """Return the settings that the arguments, the environment and the configuration file give, for each agent.

    Raises UsageError.
    """
    check_working_folder()
    environment = _own_variables(environment)
    flags, command = split_command(arguments)
    settings = choose(OPTIONS, "agent", vars(parser().parse_args(flags)), environment)
    own = own_cluster(settings.values, command, environment)
    spec, file = own.spec, own.file
    chosen = {**own.defaults, **container_defaults(environment), **settings.values}
    if not own.is_numbered and (given := [name for name in ROLE_FLAGS if is_flag(settings.origins.get(name))]):
        raise UsageError(f"{flag(given[0])}: for tasks that a launcher numbers, and this is no such task: leave it out")
    spare = _spare(chosen, spec)
    tasks = (spec.lead,) if spare is not None else own_tasks(chosen, spec, own.task, file)
    refuse_two_names(spec, str(file or "TF_CONFIG"))
    if "listen" in chosen and len(tasks) > 1:
        raise UsageError(
            f"--listen {chosen['listen']}: one address for {len(tasks)} tasks ({', '.join(map(str, tasks))}): give the "
            "address of each in [agents] of the cluster file"
        )
    if (replicas := chosen.get("replicas", 1)) > 1 and not spec.is_alone:
        raise UsageError(
            f"--replicas {replicas}: for a script that runs alone, and this is a task of a cluster, whose replicas are "
            "its GPUs or its one CPU: leave it out"
        )
    words = _command(command, spec) if needs_program else ()
    place = partial(served_address, spec=spec, environment=environment)
    found = (_settings(chosen, own, task, spare, words, place) for task in tasks)
    return tuple(found)


def _settings(
    chosen: Mapping[str, Any],
    own: OwnCluster,
    task: Task,
    spare: Address | None,
    command: tuple[str, ...],
    served: Callable[[Address], Address],
) -> AgentSettings:
    spec, file = own.spec, own.file
    seat = spare or spec.agents[task]
    listen = chosen.get("listen", served(seat))
    spec = replace(spec, agents={task: listen}) if spec.is_alone else spec
    for address in (listen, *_dialled(task, spec)):
        uses_tls(address, spec, chosen.get("insecure", False))
    return AgentSettings(
        cluster=spec,
        cluster_file=None if file is None else file.absolute(),
        task=task,
        command=command,
        run=chosen.get("run", spec.name),
        state_dir=(chosen.get("state_dir") or user_state_folder(os.environ)).absolute(),
        listen=listen,
        chooses_port=spec.is_alone and file is None and "listen" not in chosen,
        seat=seat if may_move(spec) else None,
        watched_by=own.watched_by,
        others_unknown=own.others_unknown,
        **{name: chosen[name] for name in SETTINGS if name in chosen},
    )


def _own_variables(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment without the name of the task in which this agent was started, as in a notebook.

    That agent gave its task the variable TFSCALE_TASK, which is the same as that of --task.
    """
    is_in_task = "TFSCALE_REPORT" in environment
    return {name: value for name, value in environment.items() if not (is_in_task and name == "TFSCALE_TASK")}


def parser() -> CommandLine:
    """Return the parser of the agent's own words, with all flags and commands."""
    made = _AgentLine(
        prog="tfscale-agent",
        usage="tfscale-agent [options] -- COMMAND ...",
        description="Start and supervise this host's TensorFlow tasks, and stream what they do.",
        epilog="Each flag can be a variable too (TFSCALE_STATE_DIR), or a line of [agent] in "
        "$XDG_CONFIG_HOME/tfscale/config.toml.",
        allow_abbrev=False,
    )
    add_flags(made, OPTIONS)
    made.add_argument("--version", action="version", version=version_line())
    rows = made.add_subparsers(
        title="commands, in place of a program", dest="command", metavar="COMMAND", parser_class=CommandLine
    )
    for name, summary in _COMMANDS.items():
        rows.add_parser(name, help=summary, add_help=False, usage=f"tfscale-agent {name} --help")
    return made


class _AgentLine(CommandLine):
    """Parser of the agent's own words, which come before the program's."""

    def _check_value(self, action: Action, value: Any) -> None:
        """Refuse a word that is no command: mostly it is a program without its `--`."""
        if action.dest == "command" and value not in _COMMANDS:
            raise UsageError(f"there is no command {value!r}: give a program after --, as in -- python train.py")
        if action.dest == "command":
            raise UsageError(f"{value} comes first, as in tfscale-agent {value} --help")


def _spare(chosen: Mapping[str, Any], spec: ClusterSpec) -> Address | None:
    """Return the spare that the agent is, None for the agent of a task. Raises UsageError for an unknown spare."""
    spare: Address | None = chosen.get("spare")
    if spare is not None and spare not in spec.spares:
        names = ", ".join(map(str, spec.spares)) or "none"
        raise UsageError(f"--spare {spare}: [spares] of the cluster file has {names}")
    if spare is not None and (given := given_flags(chosen)):
        raise UsageError(f"{' and '.join(given)}: a spare holds no task until one is placed there: leave it out")
    return spare


def _dialled(task: Task, spec: ClusterSpec) -> list[Address]:
    """Return the agents that this task's agent dials.

    The lead's dials all, the others dial the lead's, and with recovery any may have to act for the lead.
    """
    is_any = spec.recovery is not None or may_move(spec)
    agents = [
        address for other, address in spec.agents.items() if other != task and (is_any or spec.lead in (task, other))
    ]
    return [*agents, *spec.spares]


def _command(command: Sequence[str], spec: ClusterSpec) -> tuple[str, ...]:
    chosen = tuple(command) or spec.program.command
    if not chosen:
        raise UsageError("no program: give it after --, as in -- python train.py, or as [program] in the cluster file")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
