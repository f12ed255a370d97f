"""Configuration of one agent as a frozen object, and the table of the options that it is read from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tfscale.core.cluster.cluster_spec import Address, ClusterSpec, parse_address
from tfscale.core.cluster.local.gpu_shares import share_of
from tfscale.core.cluster.placement.placement import file_placement
from tfscale.core.cluster.task import Task, parse_role
from tfscale.core.cluster.task_files import TaskFiles, state_folder
from tfscale.core.cluster.task_identity import TaskIdentity, identity_of
from tfscale.core.errors import UsageError
from tfscale.core.logs import LEVELS, LOG_FORMATS
from tfscale.core.settings.precedence import Option
from tfscale.core.settings.value_parsers import (
    SIZE_UNITS,
    at_most,
    count_from_0,
    number_from_0,
    one_of,
    path,
    placed,
    size,
    switch,
)


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The whole configuration of one agent."""

    cluster: ClusterSpec
    task: Task
    command: tuple[str, ...]
    """The task's program and its arguments."""
    run: str
    """Name of the folder of logs and state."""
    state_dir: Path
    """Folder that has one folder for each run."""
    listen: Address
    seat: Address | None = None
    """Address of the agent in the cluster file, where tasks may be placed on other agents; None where they stay.

    A spare's `task` is the lead's until one is placed there.
    """
    process_agents: tuple[Address, ...] = ()
    """Addresses of all agents of the process in the cluster file, where it has several."""
    gpus: tuple[str, ...] = ()
    """GPUs of the host by CUDA's names, which are divided among the tasks of these agents; empty without GPUs."""
    start_reason: str = ""
    """Reason of the command that has placed the task there, empty without one."""
    insecure: bool = False
    """Serve and dial in plain text."""
    insecure_loopback: bool = False
    """Take orders on loopback from every user of this machine."""
    grace: float = 30.0
    """Seconds from SIGTERM to SIGKILL when the task is asked to end."""
    cluster_file: Path | None = None
    """File that `cluster` was read from."""
    exit_with_task: bool = False
    """End with the task's exit status, as soon as the task ends."""
    exit_unwatched: bool = False
    """End once the task has ended and no console watches."""
    ends_container: bool = False
    """Process 1 of a container ends with this agent, and with it the task."""
    show_output: bool = False
    """Copy the task's output to stdout."""
    adopt: bool = False
    """Adopt a task that runs another command."""
    restart: bool = False
    """Start the task although it ended while no agent was there."""
    script_tf_config: bool = False
    """Keep a TF_CONFIG that the script assigns itself, instead of the agent's."""
    log_size: int = 64 << 20
    """Bytes at which the task's log is rotated."""
    log_keep: int = 4
    """Number of rotated logs that are kept."""
    log_level: str = "info"
    """Lowest level of the agent's own log, one of `core.logs.LEVELS`."""
    log_format: str = "text"
    """Format of the agent's own log, one of `core.logs.LOG_FORMATS`."""

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
        """CUDA_VISIBLE_DEVICES of the task, None where it has that of the agent."""
        if not self.gpus:
            return None
        tasks = [task for task, agent in self.cluster.agents.items() if agent in self.process_agents]
        return ",".join(share_of(self.task, self.gpus, tasks))

    @property
    def files(self) -> TaskFiles:
        """Files of the task; those of one that sits elsewhere than in the cluster file lie in a folder of the seat.

        Hosts may share the run's folder, and the agent that the task has left may still have its files there.
        """
        folder = state_folder(self.state_dir, self.run, self.cluster)
        if self.seat is not None and file_placement(self.cluster).seats.get(self.task) != self.seat:
            folder /= f"seat-{self.seat.host}-{self.seat.port}"
        return TaskFiles(folder, self.task)

    @property
    def identity(self) -> TaskIdentity:
        """Names that a request for this agent has."""
        return identity_of(self.cluster, self.run, self.task)


_LEAST_LOG = 4096
"""Bytes below which a log would be rotated more often than it is read."""
_MOST_LOGS = 1000
_MOST_GRACE = 24 * 3600


def _folder_name(text: str, place: str) -> str:
    if "/" in text or text in ("", ".", ".."):
        raise UsageError(f"{place}: {text!r} must be the name of a folder")
    return text


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
        "$XDG_CONFIG_HOME/tfscale, else the program runs alone",
    ),
    "listen": Option(
        parse_address, "HOST:PORT", "address to serve, for one task; default: the agent's address in the cluster file"
    ),
    "insecure": Option(switch, "", "serve and dial in plain text, also beyond loopback and with [tls] in the file"),
    "insecure_loopback": Option(switch, "", "in plain text on loopback: take orders from every user of this machine"),
    "run": Option(_folder_name, "NAME", "name of the folder of logs and state; default: the cluster's name"),
    "state_dir": Option(path, "DIR", "folder of all runs; default: $XDG_STATE_HOME/tfscale"),
    "grace": Option(at_most(_MOST_GRACE, number_from_0), "SECONDS", "time from SIGTERM to SIGKILL; default 30"),
    "exit_with_task": Option(
        switch,
        "",
        "end when the task ends, with its exit status, of several with that of the first that failed; default for a "
        "program that runs alone",
    ),
    "exit_unwatched": Option(switch, "", "end once the task has ended and no console watches"),
    "show_output": Option(switch, "", "copy the tasks' output to stdout; default for a program that runs alone"),
    "adopt": Option(switch, "", "adopt a task that runs, although it runs another command than this one"),
    "restart": Option(switch, "", "start the task again if it ended while no agent ran"),
    "script_tf_config": Option(switch, "", "keep a TF_CONFIG that the script itself assigns"),
    "log_size": Option(size(_LEAST_LOG), "SIZE", f"rotate the task's log at this size; default 64M ({SIZE_UNITS})"),
    "log_keep": Option(at_most(_MOST_LOGS, count_from_0), "N", "number of rotated logs to keep; default 4"),
    "log_level": Option(
        one_of(*LEVELS), "LEVEL", f"lowest level of the agent's log: {', '.join(LEVELS)}; default info"
    ),
    "log_format": Option(one_of(*LOG_FORMATS), "FORMAT", "format of the agent's log: text or json; default text"),
}
