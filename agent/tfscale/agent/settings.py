"""Configuration of one agent as a frozen object, and the table of its options."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tfscale.core.cluster.cluster_spec import Address, ClusterSpec, parse_address
from tfscale.core.cluster.file.cluster_file import check_run_name
from tfscale.core.cluster.local.gpu_shares import share_of
from tfscale.core.cluster.placement.placement import file_placement
from tfscale.core.cluster.task import Task, parse_role
from tfscale.core.cluster.task_files import TaskFiles, state_folder
from tfscale.core.cluster.task_identity import TaskIdentity, identity_of
from tfscale.core.errors import UsageError
from tfscale.core.logs import LEVELS, LOG_FORMATS
from tfscale.core.metrics.page_address import page_address
from tfscale.core.records.task_status import Reason
from tfscale.core.settings.precedence import Option
from tfscale.core.settings.value_parsers import (
    SIZE_UNITS,
    Parse,
    at_most,
    count,
    count_from_0,
    number_from_0,
    one_of,
    path,
    placed,
    size,
    switch,
)

_LEAST_LOG = 4096
"""Bytes below which a log would be rotated more often than read."""
_MOST_LOGS = 1000
_MOST_GRACE = 24 * 3600
_MOST_REPLICAS = 64
_MOST_HISTORY = 240
"""Minutes of frames that take some 40 MB of memory, beside 7 MB of steps at most; more is for a recording."""
_METRICS = Option(
    page_address,
    "[HOST]:PORT",
    "serve /metrics for Prometheus there, of all tasks of this process; :9471 is on the host that the agent serves",
)


def _setting(parse: Parse, default: str, metavar: str, help: str) -> Any:
    """Return a field of AgentSettings that is an option of the same name; `default` is a text as a user gives it."""
    option = Option(parse, metavar, f"{help}; default {default}")
    return field(default=parse(default, "default"), metadata={"option": option})


def _switch(help: str) -> Any:
    """Return a field of AgentSettings that a flag of the same name turns on."""
    return field(default=False, metadata={"option": Option(switch, "", help)})


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The whole configuration of one agent. A setting is written once, as a field: type, default, `--help`."""

    cluster: ClusterSpec
    task: Task
    command: tuple[str, ...]
    """The task's program and its arguments."""
    run: str
    """Name of the folder of logs and state."""
    state_dir: Path
    """Absolute path of the folder with one folder for each run."""
    listen: Address
    chooses_port: bool = False
    """True where nobody gave `listen`: another free port of loopback does as well."""
    seat: Address | None = None
    """Address of the agent in the cluster file, where tasks may be placed on other agents; None where tasks stay.

    The `task` of a spare is the lead's until a task is placed there.
    """
    process_agents: tuple[Address, ...] = ()
    """Addresses of all agents of the process in the cluster file, where the process has several."""
    gpus: tuple[str, ...] = ()
    """GPUs of the host by CUDA's names, which are divided among the tasks of these agents; empty without GPUs."""
    start_reason: Reason | None = None
    """Reason of the command that has placed the task here, None without such a command."""
    working_folder: Path = field(default_factory=Path.cwd)
    """Path of the folder in which the agent was started."""
    cluster_file: Path | None = None
    """Absolute path of the file that `cluster` was read from."""
    watched_by: str = ""
    """Command of a console that shows the run, for the agent's first line; empty where the agent does not tell it."""
    others_unknown: str = ""
    """Words about a launcher that counts the program among others, where no cluster is known; else empty."""
    ends_container: bool = False
    """True where process 1 of a container ends with this agent, and the task with the container."""
    insecure: bool = _switch("serve and dial in plain text, also beyond loopback and with [tls] in the file")
    insecure_loopback: bool = _switch("in plain text on loopback: take orders from every user of this machine")
    grace: float = _setting(at_most(_MOST_GRACE, number_from_0), "30", "SECONDS", "time from SIGTERM to SIGKILL")
    exit_with_task: bool = _switch(
        "end when the task ends, with its exit status, of several with that of the first that failed; default for a "
        "program that runs alone"
    )
    exit_unwatched: bool = _switch("end once the task has ended and no console watches")
    show_output: bool = _switch("copy the tasks' output to stdout and stderr; default for a program that runs alone")
    ends_with_agent: bool = _switch("kill the task when its agent is killed; default under Slurm, where none follows")
    write_report: bool = _switch(
        "by the lead's agent, have a console write report.txt beside the logs: what happened, and at the end what was "
        "lost to what; default under Slurm"
    )
    adopt: bool = _switch("adopt a task that runs, although it runs another command than this one")
    restart: bool = _switch("start the task again if it ended while no agent ran")
    replicas: int = _setting(
        at_most(_MOST_REPLICAS, count),
        "1",
        "N",
        "have MirroredStrategy() find this many devices, in a script that runs alone: GPUs, or without any logical "
        "devices of the CPU",
    )
    script_tf_config: bool = _switch("keep a TF_CONFIG that the script itself assigns")
    log_size: int = _setting(size(_LEAST_LOG), "64M", "SIZE", f"rotate the task's log at this size ({SIZE_UNITS})")
    log_keep: int = _setting(at_most(_MOST_LOGS, count_from_0), "4", "N", "number of rotated logs to keep")
    history: int = _setting(
        at_most(_MOST_HISTORY, count), "10", "MINUTES", "frames to keep for consoles that come late or come back"
    )
    metrics: Address | None = field(default=None, metadata={"option": _METRICS})
    """Address of the page for Prometheus, its host empty for that of `listen`; None: no page."""
    log_level: str = _setting(one_of(*LEVELS), "info", "LEVEL", f"lowest level of the agent's log: {', '.join(LEVELS)}")
    log_format: str = _setting(one_of(*LOG_FORMATS), "text", "FORMAT", "format of the agent's log: text or json")

    @property
    def is_spare(self) -> bool:
        """True for an agent that holds no task in the cluster file."""
        return self.seat in self.cluster.spares

    @property
    def leads(self) -> bool:
        """True for the agent that issues the cluster's generations."""
        return self.task == self.cluster.lead

    @property
    def position(self) -> int:
        """Position of the task among all tasks of the cluster, from 0."""
        return list(self.cluster.tasks).index(self.task)

    @property
    def visible_gpus(self) -> str | None:
        """CUDA_VISIBLE_DEVICES of the task; None where the task inherits the agent's variable."""
        if not self.gpus:
            return None
        tasks = [task for task, agent in self.cluster.agents.items() if agent in self.process_agents]
        return ",".join(share_of(self.task, self.gpus, tasks))

    @property
    def files(self) -> TaskFiles:
        """Files of the task; where the task sits elsewhere than in the cluster file, in a folder of the seat.

        Hosts may share the run's folder, and the task's former agent may still have its files there.
        """
        folder = state_folder(self.state_dir, self.run, self.cluster)
        if self.seat is not None and file_placement(self.cluster).seats.get(self.task) != self.seat:
            folder /= f"seat-{self.seat.host}-{self.seat.port}"
        return TaskFiles(folder, self.task)

    @property
    def identity(self) -> TaskIdentity:
        """Names that a request for this agent has."""
        return identity_of(self.cluster, self.run, self.task)


def _run_name(text: str, place: str) -> str:
    try:
        return check_run_name(text)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None


SETTINGS: dict[str, Option] = {
    each.name: each.metadata["option"] for each in fields(AgentSettings) if "option" in each.metadata
}
"""Options that are fields of AgentSettings as they are."""
OPTIONS: dict[str, Option] = {
    "task": Option(
        placed(Task.parse),
        "ROLE:INDEX",
        "run this task of the cluster (may be repeated); default: the task in TF_CONFIG, else all tasks whose "
        "addresses in the cluster file are this host's",
        is_list=True,
    ),
    "role": Option(
        placed(parse_role),
        "ROLE",
        "with --index the same for one task: chief, worker, ps, evaluator, dispatcher or dataworker",
    ),
    "index": Option(count_from_0, "N", "position of the task within its role, from 0"),
    "spare": Option(
        parse_address,
        "HOST:PORT",
        "be the spare with this address in [spares]: hold no task until one is placed there",
    ),
    "cluster": Option(
        path,
        "FILE",
        "cluster file, TOML or JSON; default: TF_CONFIG in the environment, else cluster.toml in this folder or in "
        "$XDG_CONFIG_HOME/tfscale, else the tasks of a step of Slurm or of an indexed Job, else the program runs alone",
    ),
    "chief": Option(switch, "", "of tasks that Slurm or an indexed Job numbers: the first is the chief"),
    "ps": Option(count_from_0, "N", "of such tasks: the last N, but for an evaluator, are parameter servers"),
    "evaluator": Option(switch, "", "of such tasks: the last is the evaluator"),
    "pods": Option(count, "N", "number of pods of an indexed Job of Kubernetes; default PET_NNODES"),
    "listen": Option(
        parse_address, "HOST:PORT", "address to serve, for one task; default: the agent's address in the cluster file"
    ),
    "run": Option(_run_name, "NAME", "name of the folder of logs and state; default: the cluster's name"),
    "state_dir": Option(path, "DIR", "folder of all runs; default: $XDG_STATE_HOME/tfscale"),
    **SETTINGS,
}
"""Every option of the command line; the first options choose the agents of the process."""
