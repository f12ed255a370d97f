"""Run on this machine, started by the console: its agents go on without the console if the operator wishes."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tfscale.core.cluster.cluster_spec import ClusterError
from tfscale.core.cluster.file.cluster_file import load_cluster
from tfscale.core.cluster.local.file_lock import is_locked
from tfscale.core.cluster.local.gpu_shares import VISIBLE_GPUS, chosen_gpus, divided
from tfscale.core.cluster.local.local_agents import LocalAgent, local_agents
from tfscale.core.cluster.local.loopback_cluster import is_free, run_of, write_local_cluster, write_lone_cluster
from tfscale.core.cluster.task import Task
from tfscale.core.cluster.task_files import TaskFiles, state_folder
from tfscale.core.errors import TfscaleError
from tfscale.core.metrics.page_address import without_page
from tfscale.core.settings.user_folders import user_state_folder
from tfscale.core.working_folder import check_working_folder

_PATIENCE = 30.0
"""Seconds within which all agents must serve."""
_POLL = 0.05
_ELSEWHERE = (
    "agents run on Linux alone: start `tfscale-agent -- COMMAND` there, and watch it from here with "
    "`tfscale-console --agent HOST:PORT`"
)


class OwnRunError(TfscaleError):
    """A run that cannot be started here."""


@dataclass(frozen=True, slots=True)
class OwnRun:
    """Agents of one run on this machine."""

    name: str
    environment: Mapping[str, str]
    started: Sequence[subprocess.Popen[bytes]] = field(default=())
    """Agents that this console has started; none where the run was there already."""

    @property
    def agents(self) -> list[LocalAgent]:
        """Agents of the run that serve now."""
        return [agent for agent in local_agents(self.environment) if agent.run == self.name]

    def stop(self) -> None:
        """End the agents, and with them their tasks; return when they have ended."""
        for agent in self.agents:
            _signal(agent.pid, signal.SIGTERM)
        while self.agents or any(process.poll() is None for process in self.started):
            time.sleep(_POLL)


def start_run(
    command: Sequence[str],
    workers: int | None,
    environment: Mapping[str, str],
    is_over: Callable[[OwnRun], bool] = lambda _run: False,
) -> OwnRun:
    """Start the command as a single task, or as a cluster of workers; if its run is there already, join that run.

    A run of which only agents are left, as `is_over` decides, is ended and started again.
    Raises OwnRunError, and UsageError where the working folder was removed.
    """
    if sys.platform != "linux":
        raise OwnRunError(_ELSEWHERE)
    check_working_folder()
    name = run_of(command if workers is None else (*command, f"--workers={workers}"), Path.cwd())
    run = OwnRun(name, environment)
    if run.agents:
        if not is_over(run):
            return run
        run.stop()
    return _started(name, command, workers, environment)


def _started(name: str, command: Sequence[str], workers: int | None, environment: Mapping[str, str]) -> OwnRun:
    """Start all agents and wait until they serve; after a failure or ctrl-C none of them is left."""
    folder = user_state_folder(environment) / name
    agents: list[subprocess.Popen[bytes]] = []
    try:
        with _interrupted_later():
            folder.mkdir(parents=True, exist_ok=True)
            agents.extend(_start_agents(folder, command, workers, environment))
        run = OwnRun(name, environment, agents)
        _wait_for(run, folder)
    except BaseException as error:
        for agent in agents:
            agent.terminate()
            agent.wait()
        if isinstance(error, OSError):
            raise OwnRunError(f"{folder}: cannot keep state there ({error.strerror}): set XDG_STATE_HOME") from None
        raise
    return run


@contextlib.contextmanager
def _interrupted_later() -> Iterator[None]:
    """Let ctrl-C wait for the end of the block, within which a started process may still be unknown."""
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def _start_agents(
    folder: Path, command: Sequence[str], workers: int | None, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    path = folder / f"{folder.name}.toml"
    if workers is None:
        write_lone_cluster(path)
    elif not _serves_again(path, workers):
        write_local_cluster(path, {"worker": workers})
    for task in load_cluster(path).tasks:
        devices = devices_of(task.index, workers or 1, environment)
        yield _start_agent(folder, path, task, command, {**environment, **devices})


def _serves_again(path: Path, workers: int) -> bool:
    """Return whether an earlier run's cluster file can be used again, and its remaining tasks be adopted.

    With other addresses it would be another cluster, whose state and logs have a folder of their own.
    """
    try:
        spec = load_cluster(path)
    except ClusterError:
        return False
    folder = state_folder(path.parent.parent, path.stem, spec)
    return (
        len(spec.tasks) == workers
        and all(map(is_free, spec.agents.values()))
        and all(is_free(place) or _lives(TaskFiles(folder, task)) for task, place in spec.tasks.items())
    )


def _lives(files: TaskFiles) -> bool:
    """Return whether a shim of the task lives although its agent was killed."""
    try:
        with files.shim_lock.open() as lock:
            return is_locked(lock)
    except OSError:
        return False


def _start_agent(
    folder: Path, cluster: Path, task: Task, command: Sequence[str], environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    place = ["--cluster", str(cluster), "--role", str(task.role), "--index", str(task.index)]
    life = ["--state-dir", str(folder.parent), "--exit-unwatched", "--restart"]
    with _agent_log(folder, task).open("wb") as log:
        # In a session of its own: neither ctrl-C nor the end of the terminal reaches it.
        return subprocess.Popen(
            [_agent_program(), *place, *life, "--", *command],
            env=without_page(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def devices_of(index: int, workers: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variable with a worker's share of the GPUs; empty without a share."""
    gpus = chosen_gpus(environment)
    if gpus is None:
        gpus = tuple(str(number) for number in range(_count_gpus()))
    if workers == 1 or not gpus:
        return {}
    return {VISIBLE_GPUS: ",".join(divided(gpus, workers)[index])}


def _count_gpus() -> int:
    return len(list(Path("/dev").glob("nvidia[0-9]*")))


def _wait_for(run: OwnRun, folder: Path) -> None:
    """Wait until all agents serve. Raises OwnRunError."""
    due = time.monotonic() + _PATIENCE
    tasks = list(load_cluster(folder / f"{folder.name}.toml").tasks)
    while len(run.agents) < len(tasks):
        ended = next((task for task, agent in zip(tasks, run.started, strict=True) if agent.poll() is not None), None)
        if ended is not None or time.monotonic() > due:
            raise OwnRunError(_failure(folder, ended or tasks[0]))
        time.sleep(_POLL)


def _failure(folder: Path, task: Task) -> str:
    log = _agent_log(folder, task)
    said = log.read_text(errors="replace").strip().splitlines()
    return f"the agent of {task} does not serve: {said[-1] if said else 'it said nothing'} (its log: {log})"


def _agent_log(folder: Path, task: Task) -> Path:
    return folder / f"{task.role}-{task.index}.agent.log"


def _agent_program() -> str:
    """Return the path of `tfscale-agent`, of this installation before any other. Raises OwnRunError."""
    own = Path(sys.executable).with_name("tfscale-agent")
    program = str(own) if own.is_file() else shutil.which("tfscale-agent")
    if program is None:
        raise OwnRunError("tfscale-agent is not installed beside this console: pip install tfscale")
    return program


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
