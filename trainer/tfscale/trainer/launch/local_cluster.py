"""A cluster on this machine's loopback: an agent for each task, all with the same command.

This module knows the agents only as commands. They are ended when the block ends, or when the process that started them
does, even by SIGKILL.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.file.cluster_file import load_cluster
from tfscale.core.cluster.local.loopback_cluster import write_local_cluster, write_lone_cluster
from tfscale.core.cluster.strategy import family_of
from tfscale.core.cluster.task import Task
from tfscale.core.cluster.task_files import TaskFiles, state_folder
from tfscale.core.metrics.page_address import without_page
from tfscale.trainer.launch.shaped_links import LinkedHost, listens

BIN = Path(sys.executable).parent
"""Folder of the commands of this installation."""
GRACE = 5
"""Seconds in which a task has to end on request. A checkpoint of a demo takes less; ctrl-C takes no longer."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
"""Number of the call of Linux, from sys/prctl.h."""

_KEEPER = "import shutil, sys; sys.stdin.buffer.read(); shutil.rmtree(sys.argv[1], ignore_errors=True)"
"""Program that removes a folder once every process with the program's input has ended."""

ALONE = {"TF_CPP_MIN_LOG_LEVEL": "2"}
SHARED = ALONE | {
    # Several tasks on one machine: each keeps to the CPU, and to one thread for its kernels.
    "CUDA_VISIBLE_DEVICES": "",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "2",
}


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """Agents of all tasks of one cluster."""

    path: Path
    """Cluster file."""
    logs: Path
    """Folder of the tasks' logs."""
    agents: Mapping[Task, subprocess.Popen[bytes]]

    @property
    def ending(self) -> list[Task]:
        """Tasks that end by themselves. With parameter servers only the chief does: workers serve it."""
        serving = family_of(None, (task.role for task in self.agents)).serving
        return [task for task in self.agents if task.role not in serving]

    def failed(self) -> Task | None:
        """Return a task whose agent ended with an error, or a server that ended before its chief; else None."""
        for task, agent in self.agents.items():
            status = agent.poll()
            if status or (status == 0 and task not in self.ending and not self._has_ended(self.ending[0])):
                return task
        return None

    def killed_by(self, task: Task) -> int | None:
        """Return the signal that has ended a task, as its shim has written it down; None where there is none."""
        try:
            state = json.loads(TaskFiles(self.logs, task).shim_state.read_bytes())
        except (OSError, ValueError):
            return None
        number: int | None = state.get("signal")
        return number

    def _has_ended(self, task: Task) -> bool:
        """Return whether the shim of a task has written down its end."""
        try:
            return b'"ended"' in TaskFiles(self.logs, task).shim_state.read_bytes()
        except FileNotFoundError:
            return False

    def wait(self, meanwhile: Callable[[], None] = lambda: None) -> Task | None:
        """Wait for the tasks that end by themselves. Return the first task that fails, else None.

        Args:
            meanwhile: called ten times a second, and once at the end.
        """
        while (failed := self.failed()) is None and any(self.agents[task].poll() is None for task in self.ending):
            time.sleep(0.1)
            meanwhile()
        meanwhile()
        return failed

    def agent_log(self, task: Task) -> str:
        """Return the newest lines of the log of a task's agent."""
        return _agent_log(self.path.parent, task).read_text(errors="replace")[-2000:]

    def task_log(self, task: Task, begin: int = 0) -> bytes:
        """Return a task's log from this byte on, empty if the task was never started."""
        try:
            with TaskFiles(self.logs, task).log.open("rb") as log:
                log.seek(begin)
                return log.read()
        except FileNotFoundError:
            return b""


@contextlib.contextmanager
def run_folder(prefix: str = "tfscale-run-", place: Path | None = None) -> Iterator[tuple[Path, int]]:
    """Yield a new folder, and a descriptor: the folder is removed when the last process with the descriptor has ended.

    A process that is killed removes nothing, so a process of its own does. It is in `place`, else with temporary files.
    """
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place) as name:
        reader, writer = os.pipe()
        # In a session of its own, which ctrl-C does not reach.
        keeper = subprocess.Popen(
            [sys.executable, "-IS", "-c", _KEEPER, name],
            stdin=reader,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(reader)
        try:
            yield Path(name), writer
        finally:
            os.close(writer)
            keeper.wait()


@contextlib.contextmanager
def local_cluster(
    folder: Path,
    name: str,
    *,
    tasks: Mapping[str, int],
    command: Sequence[str | Path],
    flags: Sequence[str] = (),
    held: Sequence[int] = (),
    tables: Sequence[str] = (),
    variables: Mapping[str, str] = MappingProxyType({}),
    cores: Sequence[Sequence[int]] = (),
    hosts: Sequence[LinkedHost] = (),
) -> Iterator[LocalCluster]:
    """Start an agent for each task, and enter the block once all can be reached, or have ended.

    The end of the block ends the agents with their tasks.

    Args:
        folder: holds the cluster file, logs and states.
        name: of the run.
        tasks: number of tasks by role; none for a single task outside of any cluster.
        command: program of every task.
        flags: further flags of the agents.
        held: descriptors that the agents keep open until they end.
        tables: lines of further tables of the cluster file.
        variables: of the tasks' environment, before all others.
        cores: numbers of those that each task and its agent may use, task by task; none: all.
        hosts: namespaces over which the tasks are spread in equal parts, the first tasks on the first; none: all tasks
            are on the loopback of this machine.
    """
    path = folder / f"{name}.toml"
    count = sum(tasks.values())
    spread = [hosts[number * len(hosts) // count] for number in range(count)] if hosts else []
    if tasks:
        write_local_cluster(path, tasks, tables, [host.address for host in spread])
    else:
        write_lone_cluster(path, port=0)
    spec = load_cluster(path)
    agents: dict[Task, subprocess.Popen[bytes]] = {}
    try:
        nothing: list[Any] = [()] * len(spec.tasks)
        for task, own, host in zip(spec.tasks, cores or nothing, spread or nothing, strict=True):
            with uninterrupted():
                given = (ALONE if len(spec.tasks) == 1 else SHARED) | dict(variables)
                agents[task] = _start_agent(
                    path, task, command, flags=flags, variables=given, held=held, cores=own, host=host or None
                )
        for task, agent in agents.items():
            _wait_until_served(spec.agents[task], agent)
        yield LocalCluster(path, state_folder(_state(folder), spec.name, spec), agents)
    finally:
        end(list(agents.values()))


def _start_agent(
    cluster: Path,
    task: Task,
    command: Sequence[str | Path],
    *,
    flags: Sequence[str],
    variables: Mapping[str, str],
    held: Sequence[int],
    cores: Sequence[int],
    host: LinkedHost | None,
) -> subprocess.Popen[bytes]:
    # Nobody but these agents reaches the addresses of such hosts.
    flags, enter = (flags, []) if host is None else ([*flags, "--insecure"], host.enter)
    place = ["--role", task.role, "--index", str(task.index)]
    own: list[str | Path] = ["--cluster", cluster, "--state-dir", _state(cluster.parent), "--grace", str(GRACE)]
    with _agent_log(cluster.parent, task).open("wb") as log:
        # Out of the terminal's process group: the starter of the cluster gets ctrl-C, and ends the agents in order.
        return subprocess.Popen(
            [*enter, BIN / "tfscale-agent", *place, *own, *flags, "--", *command],
            env={**without_page(os.environ), **variables},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=functools.partial(begin, os.getpid(), cores),
            pass_fds=held,
        )


def _wait_until_served(address: Address, agent: subprocess.Popen[bytes]) -> None:
    """Wait until an agent listens or has ended: a console that starts earlier warns that the link is down."""
    while agent.poll() is None and not listens(agent.pid, address.port):
        time.sleep(0.05)


def begin(parent: int, cores: Sequence[int]) -> None:
    """Bind this process to cores, and have it end with its parent."""
    if cores:
        os.sched_setaffinity(0, cores)
    _end_with(parent)


def _end_with(parent: int) -> None:
    """Have this process asked to end when its starting thread ends, for whatever reason."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it has ended already
        os.kill(os.getpid(), signal.SIGTERM)


def _state(folder: Path) -> Path:
    return folder / "state"


def _agent_log(folder: Path, task: Task) -> Path:
    return folder / f"agent-{task.role}-{task.index}.log"


def end(processes: Sequence[subprocess.Popen[bytes]], patience: float | None = None) -> None:
    """End all processes, agents with their tasks; ignore signals meanwhile.

    Args:
        processes: each leads a group of its own.
        patience: seconds after which one is killed with its group; None for agents, which end by themselves.
    """
    before = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    for number, handler in before.items():
        signal.signal(number, handler)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold signals back until the end of the block: a new process must be known to the code that later ends it."""
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt


def interrupt_on_signals() -> None:
    """Handle SIGTERM and SIGHUP as ctrl-C, so that blocks end in order."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
