"""A real training on hosts of its own, which nobody attends: agents recover it, and a console writes it down."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import net_hosts
from local_cluster import end, run_files, tasks_of
from tfscale.agent.supervision.shim_state import read_state

PROGRAMS = Path(__file__).parents[1] / "programs"
PORT, AGENT_PORT = 2222, 7070
VARIABLES = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "2"}


class UnattendedRun:
    """Agents of tasks that leave with them, and of spares; each on a host of its own. Use `unattended`."""

    flags: Sequence[str] = ("--exit-with-task", "--grace", "5")
    """Flags of all agents; a task that waits for a host that is cut off does not end by SIGTERM."""

    def __init__(
        self, folder: Path, roles: Mapping[str, int], spares: int, recovery: str, words: Sequence[str]
    ) -> None:
        self.folder, self.words = folder, words
        self.tasks = [f"{role}:{index}" for role, index in tasks_of(roles)]
        self.seats = [*self.tasks, *(f"spare:{index}" for index in range(spares))]
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.recording = folder / "run.tfrec"
        self._write_cluster(roles, spares, recovery)

    def start(self) -> None:
        """Start all agents, and the console."""
        for seat in self.seats:
            self.start_agent(seat)
        words = ["--headless", "--record", self.recording, "--out", self.folder / "run.jsonl"]
        with self._log("console") as log:
            self.console = self.console_command(*words, stderr=log)

    def console_command(self, *words: str | Path, **options: Any) -> subprocess.Popen[Any]:
        """Run a command of the console on its host, with options of Popen."""
        command = [sys.executable, "-m", "tfscale.console.cli", *words, "--cluster", self.folder / "cluster.toml"]
        host = net_hosts.inside(len(self.seats))
        return subprocess.Popen([*host, *command], env=os.environ | self._own("console"), **options)

    def home(self, name: str) -> Path:
        """Return the folder in which the agent of a seat, or `console`, keeps its state: one disk that all share."""
        assert name in (*self.seats, "console")
        return self.folder

    def said(self, seat: str) -> str:
        """Return what an agent has said so far."""
        return (self.folder / f"{seat}.log").read_text()

    def kill(self, task: str) -> None:
        """Kill a task; its agent goes on."""
        os.kill(self.pid(task), signal.SIGKILL)

    def pid(self, task: str) -> int:
        state = read_state(run_files(self.folder) / f"{task.replace(':', '-')}.state.json")
        assert state is not None and state.task_pid is not None, task
        return state.task_pid

    def cut_host(self, seat: str) -> None:
        """Let the host of a seat run on, and reach no other."""
        net_hosts.cut(self.seats.index(seat))

    def join_host(self, seat: str) -> None:
        """End the cut of a host."""
        net_hosts.free(self.seats.index(seat))

    def lose_host(self, seat: str) -> None:
        """Kill all that runs on the host of a seat, and cut it off."""
        self.cut_host(seat)
        for process in net_hosts.processes(self.seats.index(seat)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.agents[seat].wait()

    def epochs(self, task: str) -> list[tuple[int, int]]:
        """Return (process, epoch) of each epoch that a task has made."""
        path = self.folder / f"{task.replace(':', '-')}.epochs"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(process), int(epoch)) for process, epoch in map(str.split, lines)]

    def ended(self, patience: float) -> dict[str, int]:
        """Wait for the agents of tasks, and return their exit statuses."""
        until = time.monotonic() + patience
        return {task: self.agents[task].wait(until - time.monotonic()) for task in self.tasks}

    def report(self) -> dict[str, Any]:
        """End the console, and return its report of the run."""
        self.console.send_signal(signal.SIGINT)
        self.console.wait(20)
        words = [sys.executable, "-m", "tfscale.console.cli", "report", "--format", "json", self.recording]
        report = subprocess.run(words, check=True, capture_output=True, text=True)
        found: dict[str, Any] = json.loads(report.stdout)
        return found

    def end(self) -> None:
        self.console.kill()
        self.console.wait()
        end([agent for agent in self.agents.values() if agent.poll() is None])

    def find_host(self, seat: str) -> None:
        """Bring back a host that was lost, and start its agent, as a service does."""
        self.join_host(seat)
        self.start_agent(seat)

    def start_agent(self, seat: str) -> None:
        """Start the agent of a seat on its host."""
        command = [sys.executable, PROGRAMS / self.words[0], self.folder, *self.words[1:]]
        self.agents[seat] = self.agent_command(seat, "--", *command)

    def agent_command(self, seat: str, *words: str | Path, before: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """Run the agent's program with the flags of a seat on its host: words of `before`, the flags, the others."""
        (role, _, index), host = seat.partition(":"), self.seats.index(seat)
        place = ["--role", role, "--index", index]
        if role == "spare":
            place = ["--spare", f"{net_hosts.address(host)}:{AGENT_PORT}"]
        flags = ["--cluster", self.folder / "cluster.toml", *place, "--state-dir", self.home(seat), *self.flags]
        program = [*net_hosts.inside(host), sys.executable, "-m", "tfscale.agent.cli"]
        with self._log(seat) as log:
            environment = os.environ | VARIABLES | self._own(seat)
            return subprocess.Popen([*program, *before, *flags, *words], env=environment, stdout=log, stderr=log)

    def _own(self, name: str) -> dict[str, str]:
        return {
            "CUDA_VISIBLE_DEVICES": "",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "TFSCALE_INSECURE": "1",
            "XDG_RUNTIME_DIR": str(self.home(name)),
            "XDG_STATE_HOME": str(self.home(name)),
        }

    def _log(self, name: str) -> BinaryIO:
        return (self.folder / f"{name}.log").open("ab")

    def _write_cluster(self, roles: Mapping[str, int], spares: int, recovery: str) -> None:
        hosts = {seat: net_hosts.address(host) for host, seat in enumerate(self.seats)}
        lines = ["[cluster]"]
        for role in roles:
            addresses = [f"{hosts[task]}:{PORT}" for task in self.tasks if task.startswith(f"{role}:")]
            lines.append(f"{role} = {json.dumps(addresses)}")
        lines.append("[agents]")
        lines += [f'"{task}" = "{hosts[task]}:{AGENT_PORT}"' for task in self.tasks]
        if spares:
            free = [f"{hosts[seat]}:{AGENT_PORT}" for seat in self.seats[len(self.tasks) :]]
            lines += ["[spares]", f"agents = {json.dumps(free)}"]
        (self.folder / "cluster.toml").write_text("\n".join([*lines, "[recovery]", recovery, ""]))


@contextlib.contextmanager
def unattended(
    folder: Path, roles: Mapping[str, int], words: Sequence[str], spares: int = 0, recovery: str = 'policy = "ExitCode"'
) -> Iterator[UnattendedRun]:
    """Run a program of `programs/`, with its words after the folder, on a host for each task and spare."""
    folder.mkdir(exist_ok=True)
    run = UnattendedRun(folder, roles, spares, recovery, words)
    with net_hosts.hosts(len(run.seats) + 1):
        run.start()
        try:
            yield run
        finally:
            run.end()
