"""Configuration of one agent as a frozen object."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tfscale.core.cluster import Address, ClusterSpec
from tfscale.core.task import Task
from tfscale.core.task_files import TaskFiles


@dataclass(frozen=True, slots=True)
class Settings:
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
    insecure: bool = False
    """Serve and dial in plain text."""
    grace: float = 30.0
    """Seconds from SIGTERM to SIGKILL when the task is asked to end."""
    exit_with_task: bool = False
    """End with the task's exit status, as soon as the task ends."""
    restart: bool = False
    """Start the task although it ended while no agent was there."""
    script_tf_config: bool = False
    """Keep a TF_CONFIG that the script assigns itself, instead of the agent's."""
    log_size: int = 64 << 20
    """Bytes at which the task's log is rotated."""
    log_keep: int = 4
    """Number of rotated logs that are kept."""

    @property
    def leads(self) -> bool:
        """Whether this agent issues the cluster's generations."""
        return self.task == self.cluster.lead

    @property
    def place(self) -> int:
        """Position of the task among all tasks of the cluster, from 0."""
        return list(self.cluster.tasks).index(self.task)

    @property
    def files(self) -> TaskFiles:
        return TaskFiles(self.state_dir / self.run, self.task)
