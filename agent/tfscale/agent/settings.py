"""What the agent was told to do, as one frozen object, and the files that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tfscale.core.cluster import Address, ClusterSpec
from tfscale.core.task import Task


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The whole configuration of one agent."""

    cluster: ClusterSpec
    task: Task
    command: tuple[str, ...]
    """The task's program and its arguments."""
    run: str
    """Names the folder of logs and state."""
    state_dir: Path
    """Holds one folder a run."""
    listen: Address
    insecure: bool = False
    """Serve beyond loopback without TLS."""
    grace: float = 30.0
    """Seconds from SIGTERM to SIGKILL when the task is asked to end."""
    exit_with_task: bool = False
    """Leave with the task's exit status instead of staying."""
    restart: bool = False
    """Start the task although an earlier run of it has ended unattended."""
    script_tf_config: bool = False
    """Where the script assigns TF_CONFIG itself, let that count and not the agent's."""
    log_size: int = 64 << 20
    """Bytes at which the task's log is rotated."""
    log_keep: int = 4
    """Rotated logs that are kept."""
    log_level: str = "info"
    """Lowest level of the agent's own log, one of `core.logs.LEVELS`."""
    log_format: str = "text"
    """Format of the agent's own log, one of `core.logs.LOG_FORMATS`."""

    @property
    def leads(self) -> bool:
        """Whether this agent issues the cluster's generations."""
        return self.task == self.cluster.lead

    @property
    def place(self) -> int:
        """The task's among all of its cluster, from 0."""
        return list(self.cluster.tasks).index(self.task)

    @property
    def files(self) -> TaskFiles:
        return TaskFiles(self.state_dir / self.run, f"{self.task.role}-{self.task.index}")


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """The files of one task, side by side in the run's folder."""

    folder: Path
    stem: str

    @property
    def log(self) -> Path:
        return self.folder / f"{self.stem}.log"

    @property
    def stacks(self) -> Path:
        return self.folder / f"{self.stem}.stacks"

    @property
    def profiles(self) -> Path:
        """What TensorBoard is given as --logdir."""
        return self.folder / "profiles" / self.stem

    @property
    def shim_state(self) -> Path:
        return self.folder / f"{self.stem}.state.json"

    @property
    def shim_lock(self) -> Path:
        return self.folder / f"{self.stem}.lock"

    @property
    def journal(self) -> Path:
        return self.folder / f"{self.stem}.agent.json"

    @property
    def agent_lock(self) -> Path:
        return self.folder / f"{self.stem}.agent.lock"
