"""A program run by agents in all roles of a cluster, and a console that writes down what it hears and says of them."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local_cluster import end, run_files, running, start_agent, tasks_of, write_cluster
from recording import Recording
from tfscale.agent import wire
from tfscale.core.cluster.file.cluster_file import load_cluster
from tfscale.core.cluster.security import open_channel
from tfscale.core.cluster.task_identity import identity_of
from tfscale.v1 import agent_pb2, agent_pb2_grpc

SERVING = ("ps", "dispatcher", "dataworker")
LOCAL: Sequence[Sequence[str]] = ((),)
"""Words before the commands of agents that run on this machine itself: none."""


class WatchedCluster:
    """All agents of a cluster with their tasks, and a console that records.

    Args:
        command: Command of every task.
        roles: Number of tasks of each role.
        file: Cluster file with these tasks; one of this machine's loopback where none is given.
        before: Words before the command of each agent, in turn; the console has the first, or `console`.
        insecure: Whether the console takes plain text from other hosts.
    """

    def __init__(
        self,
        folder: Path,
        command: Sequence[str | Path],
        roles: Mapping[str, int],
        variables: Mapping[str, str] | None = None,
        *,
        file: Path | None = None,
        before: Sequence[Sequence[str]] = LOCAL,
        console: Sequence[str] | None = None,
        insecure: bool = False,
    ) -> None:
        self.folder, self.out = folder, folder / "run.jsonl"
        self.file = file or write_cluster(folder, **roles)
        self.tasks = [f"{role}:{index}" for role, index in tasks_of(roles)]
        self._command, self._variables, self._before = command, variables, before
        self.agents = {task: self.start(task) for task in self.tasks}
        flags = ["--cluster", self.file, "--headless", "--out", self.out, *(["--insecure"] if insecure else [])]
        words = [*(before[0] if console is None else console), sys.executable, "-m", "tfscale.console.cli", *flags]
        self._console = subprocess.Popen(words)

    def start(self, task: str) -> subprocess.Popen[bytes]:
        """Start the agent of a task, also once more."""
        role, _, index = task.partition(":")
        before = self._before[self.tasks.index(task) % len(self._before)]
        return start_agent(self.folder, self.file, int(index), self._command, self._variables, role=role, before=before)

    def end(self) -> None:
        self._console.send_signal(signal.SIGINT)
        self._console.wait(60)
        end([*self.agents.values()])

    def read(self) -> Recording:
        return Recording.read(self.out) if self.out.exists() else Recording()

    def wait_for(self, what: Callable[[Recording], Any], seconds: float = 90) -> Any:
        """Return what `what` finds in the recording. Raises AssertionError where it has found nothing in time."""
        until = time.monotonic() + seconds
        while not (found := what(run := self.read())):
            if time.monotonic() > until:
                logs = "\n".join(log.read_text()[-1500:] for log in run_files(self.folder).glob("*.log"))
                raise AssertionError(f"{run.diagnoses}\n{logs}")
            time.sleep(0.5)
        return found

    def told(self, kind: str, seconds: float, **evidence: Any) -> dict[str, Any]:
        """Return the first diagnosis of a kind that has this in its evidence, once it is told."""

        def fitting(run: Recording) -> list[dict[str, Any]]:
            return [each for each in run.told(kind) if evidence.items() <= each["evidence"].items()]

        found: list[dict[str, Any]] = self.wait_for(fitting, seconds)
        return found[0]

    def restart(self, task: str) -> list[agent_pb2.Progress]:
        """Ask the lead to restart a task, and return its answers."""
        spec = load_cluster(self.file)

        async def ask() -> list[agent_pb2.Progress]:
            async with open_channel(spec.agents[spec.lead], spec) as channel:
                to = wire.identity_message(identity_of(spec, spec.name, spec.lead))
                request = agent_pb2.TasksRequest(tasks=[task], reason="test", to=to)
                return [each async for each in agent_pb2_grpc.AgentStub(channel).Restart(request)]

        return asyncio.run(ask())


@contextlib.contextmanager
def watched(*arguments: Any, **options: Any) -> Iterator[WatchedCluster]:
    """Run a `WatchedCluster` until the block ends."""
    cluster = WatchedCluster(*arguments, **options)
    try:
        yield cluster
    finally:
        cluster.end()


@dataclass(frozen=True)
class Ran:
    """Results of a program: the recording and the logs."""

    recording: Recording
    logs: dict[str, str]
    """Log of each task, by its name, as in `worker:0`."""
    ending: set[str]
    """The tasks that end by themselves."""

    def exit_code(self, task: str) -> int | None:
        status = self.recording.status(task)
        return status["exit"]["code"] if status["exit"] else None


def run_program(
    folder: Path, command: Sequence[str | Path], roles: Mapping[str, int], variables: Mapping[str, str], timeout: float
) -> Ran:
    """Run a command as every task until those that end by themselves have ended: chief, evaluator, else workers."""
    serving = SERVING if "chief" not in roles else (*SERVING, "worker")
    ending = {f"{role}:{index}" for role, index in tasks_of(roles) if role not in serving}
    with watched(folder, command, roles, variables) as cluster:
        cluster.wait_for(lambda run: ending <= run.exited, timeout)
        # For its last frames, and for what they mean.
        time.sleep(5)
    logs = {task: (run_files(folder) / f"{task.replace(':', '-')}.log").read_text() for task in cluster.tasks}
    return Ran(Recording.read(cluster.out), logs, ending)


def run_workers(
    folder: Path, command: Sequence[str | Path], workers: int, variables: Mapping[str, str] | None = None
) -> Recording:
    """Run a command as every worker until a console says that the training is finished, and return its recording."""
    cluster, out = write_cluster(folder, workers), folder / "run.jsonl"
    with running(folder, cluster, workers, command, variables or {}):
        console = ["-m", "tfscale.console.cli", "--cluster", cluster, "--headless", "--until", "finished", "--out", out]
        subprocess.run([sys.executable, *console], check=True, timeout=150)
    return Recording.read(out)
