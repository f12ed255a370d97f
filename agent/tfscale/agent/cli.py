"""`tfscale-agent`: arguments to settings, settings to a running daemon, its answer to an exit status."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import platformdirs
from tfscale.agent.daemon import Daemon, sole_agent
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster import Address, ClusterSpec, cluster_from_environment, load_cluster, parse_address
from tfscale.core.credentials import uses_tls
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.logs import LEVELS, LOG_FORMATS, start_log
from tfscale.core.task import Task, parse_role

_logger = logging.getLogger(__name__)

_SWITCHES = ("insecure", "exit_with_task", "restart", "script_tf_config")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run an agent and return its exit status."""
    try:
        settings = read_settings(sys.argv[1:] if arguments is None else arguments, os.environ)
    except UsageError as error:
        print(f"tfscale-agent: {error}", file=sys.stderr)
        return error.exit_status
    start_log(logging.StreamHandler(), settings.log_level, settings.log_format, str(settings.task))
    try:
        with sole_agent(settings):
            return asyncio.run(_run(settings))
    except TfscaleError as error:
        _logger.error("%s", error)
        return error.exit_status


async def _run(settings: AgentSettings) -> int:
    return await Daemon(settings).run()


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> AgentSettings:
    """Flags before `TFSCALE_*` variables before the configuration file. Raises UsageError; reads only."""
    flags, command = _split(arguments)
    chosen = _configured() | _from_environment(environment)
    chosen |= {name: value for name, value in vars(_parser().parse_args(flags)).items() if value is not None}
    spec, own = _cluster(chosen, environment)
    task = _task(chosen, spec, own)
    listen = parse_address(chosen["listen"], "--listen") if "listen" in chosen else spec.agents[task]
    for address in (listen, *_dialled(task, spec)):
        uses_tls(address, spec, bool(chosen.get("insecure")))
    optional = {
        name: chosen[name]
        for name in ("grace", "log_size", "log_keep", "log_level", "log_format", *_SWITCHES)
        if name in chosen
    }
    return AgentSettings(
        cluster=spec,
        task=task,
        command=_command(command, spec),
        run=_run_name(chosen.get("run", spec.name)),
        state_dir=Path(chosen.get("state_dir") or platformdirs.user_state_path("tfscale")),
        listen=listen,
        **optional,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tfscale-agent",
        usage="tfscale-agent [options] -- COMMAND ...",
        description="Start and supervise this host's TensorFlow task, and stream what it does.",
        epilog="Each option may also be given as a variable: TFSCALE_STATE_DIR for --state-dir.",
        allow_abbrev=False,
    )
    parser.add_argument("--role", help="chief, worker, ps or evaluator; left out, TF_CONFIG's task")
    parser.add_argument("--index", type=int, help="of the task within its role; left out, TF_CONFIG's task")
    parser.add_argument("--cluster", metavar="FILE", help="cluster file, TOML or JSON; left out, TF_CONFIG")
    parser.add_argument("--listen", metavar="HOST:PORT", help="default: the agent's address in the cluster file")
    parser.add_argument("--insecure", action="store_true", default=None, help="beyond loopback without TLS")
    parser.add_argument("--run", metavar="NAME", help="names the folder of logs and state; default: the cluster's name")
    parser.add_argument("--state-dir", metavar="DIR", help="default: $XDG_STATE_HOME/tfscale")
    parser.add_argument("--grace", type=_seconds, metavar="SECONDS", help="from SIGTERM to SIGKILL; default 30")
    parser.add_argument("--exit-with-task", action="store_true", default=None, help="return the task's exit status")
    parser.add_argument("--restart", action="store_true", default=None, help="run a task again that ended unattended")
    parser.add_argument(
        "--script-tf-config", action="store_true", default=None, help="let the script set its TF_CONFIG"
    )
    parser.add_argument("--log-size", type=_size, metavar="BYTES", help="rotate the task's log there; default 64M")
    parser.add_argument("--log-keep", type=_count, metavar="N", help="rotated logs to keep; default 4")
    parser.add_argument(
        "--log-level",
        type=_one_of(LEVELS),
        metavar="LEVEL",
        help=f"of the agent's own log, on stderr: {', '.join(LEVELS)}; default info",
    )
    parser.add_argument(
        "--log-format",
        type=_one_of(LOG_FORMATS),
        metavar="FORMAT",
        help="of the agent's own log: text or json; default text",
    )
    return parser


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    words = list(arguments)
    if "--" not in words:
        return words, []
    cut = words.index("--")
    return words[:cut], words[cut + 1 :]


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    named = {name: environment.get(f"TFSCALE_{name.upper()}") for name in _readers()}
    return {name: _read(name, value, f"TFSCALE_{name.upper()}") for name, value in named.items() if value}


def _configured() -> dict[str, Any]:
    path = platformdirs.user_config_path("tfscale") / "config.toml"
    try:
        table = tomllib.loads(path.read_text()).get("agent", {})
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    for name in table:
        if name.replace("-", "_") not in _readers():
            raise UsageError(f"{path}: [agent] has no key {name!r}")
    return {(key := name.replace("-", "_")): _read(key, str(value), f"{path}: {name}") for name, value in table.items()}


def _readers() -> dict[str, Any]:
    words = dict.fromkeys(("role", "cluster", "listen", "run", "state_dir"), str)
    numbers = {"index": int, "grace": _seconds, "log_size": _size, "log_keep": _count}
    names = {"log_level": _one_of(LEVELS), "log_format": _one_of(LOG_FORMATS)}
    return {**words, **numbers, **names, **dict.fromkeys(_SWITCHES, _switch)}


def _read(name: str, value: str, where: str) -> Any:
    try:
        return _readers()[name](value)
    except (ValueError, argparse.ArgumentTypeError) as error:
        raise UsageError(f"{where}: {value!r}: {error}") from None


def _cluster(chosen: Mapping[str, Any], environment: Mapping[str, str]) -> tuple[ClusterSpec, Task | None]:
    if "cluster" in chosen:
        return load_cluster(Path(chosen["cluster"])), None
    return cluster_from_environment(environment)


def _task(chosen: Mapping[str, Any], spec: ClusterSpec, own: Task | None) -> Task:
    role = parse_role(chosen["role"]) if "role" in chosen else None if own is None else own.role
    if role is None:
        raise UsageError("no task: give --role and --index")
    index = chosen.get("index", own.index if own is not None and own.role == role else None)
    if index is None and sum(task.role == role for task in spec.tasks) == 1:
        index = 0
    if index is None:
        raise UsageError(f"no index: give --index, the place of this {role} in the cluster's list")
    task = Task(role, index)
    if task not in spec.tasks:
        raise UsageError(f"{task}: the cluster has no such task, only {', '.join(map(str, spec.tasks))}")
    return task


def _dialled(task: Task, spec: ClusterSpec) -> list[Address]:
    """The agents that this task's agent speaks to: the lead's to all, the others to the lead's."""
    return [address for other, address in spec.agents.items() if other != task and spec.lead in (task, other)]


def _command(command: Sequence[str], spec: ClusterSpec) -> tuple[str, ...]:
    chosen = tuple(command) or spec.program.command
    if not chosen:
        raise UsageError("no program: give it after --, as in -- python train.py, or as [program] in the cluster file")
    return chosen


def _run_name(name: str) -> str:
    if not name or "/" in name or name in (".", ".."):
        raise UsageError(f"--run {name!r}: must be the name of a folder")
    return name


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError("must be 0 or more seconds")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must be 0 or more")
    return value


def _size(text: str) -> int:
    units = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
    unit = units.get(text[-1:].lower(), 1)
    value = int(text if unit == 1 else text[:-1]) * unit
    if value < 4096:
        raise argparse.ArgumentTypeError("must be at least 4096 bytes")
    return value


def _one_of(names: Sequence[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"must be one of {', '.join(names)}")
        return text

    return read


def _switch(text: str) -> bool:
    if text.lower() not in ("1", "true", "yes", "on", "0", "false", "no", "off"):
        raise argparse.ArgumentTypeError("must be 1 or 0")
    return text.lower() in ("1", "true", "yes", "on")


if __name__ == "__main__":
    sys.exit(main())
