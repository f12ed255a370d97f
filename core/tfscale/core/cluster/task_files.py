"""Layout of a run's folder on a task's host: the files that the agent writes, and the console names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Task


def state_folder(state_dir: Path, run: str, spec: ClusterSpec) -> Path:
    """Return the folder of a run below the folder of all runs: two clusters of one name have two folders."""
    return state_dir / (run if spec.is_alone else f"{run}-{spec.fingerprint}")


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """The files of one task, side by side in the run's folder."""

    folder: Path
    task: Task

    @property
    def stem(self) -> str:
        """Beginning of each file's name."""
        return f"{self.task.role}-{self.task.index}"

    @property
    def log(self) -> Path:
        return self._file("log")

    @property
    def shown(self) -> Path:
        """Log from which the agent shows the task's stdout, and its stderr where both go to the same place."""
        return self._file("out")

    @property
    def shown_errors(self) -> Path:
        """Log from which the agent shows the task's stderr."""
        return self._file("err")

    @property
    def report(self) -> Path:
        """Report of the run, one for all of its tasks."""
        return self.folder / "report.txt"

    @property
    def stacks(self) -> Path:
        return self._file("stacks")

    @property
    def profiles(self) -> Path:
        """Folder of the task's profiles, TensorBoard's `--logdir`."""
        return self.folder / "profiles" / self.stem

    @property
    def shim_state(self) -> Path:
        return self._file("state.json")

    @property
    def shim_lock(self) -> Path:
        return self._file("lock")

    @property
    def journal(self) -> Path:
        return self._file("agent.json")

    @property
    def agent_lock(self) -> Path:
        return self._file("agent.lock")

    @property
    def audit(self) -> Path:
        """File of the orders that the agent was given."""
        return self._file("audit.jsonl")

    def _file(self, ending: str) -> Path:
        return self.folder / f"{self.stem}.{ending}"
