"""A real cluster of hosts in network namespaces, with agents, the console and what may be done to them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import net_hosts
import psutil
from local_cluster import run_files, start_agent, tasks_of
from tfscale.agent.supervision.shim_state import read_state

from incidents import groups
from incidents.incident import WELL, Setup

PROGRAMS = Path(__file__).parents[1] / "programs" / "incidents"
EAR = Path(__file__).parent / "ear.py"
MARK = "TFSCALE_TEST_CLUSTER"
"""Variable by which the processes of a cluster are found: agents hand their environment on."""
PORT, AGENT_PORT = 2222, 7070
PATIENCE = 100.0
"""Seconds until a cluster must train that was started."""
AGAIN = 12.0
"""Seconds until a cluster must train again that had an incident."""
SETTLED = 6.0
"""Seconds of training before anything happens."""


class Cluster:
    """Tasks on a host each, in the order of their roles, and the console on a host of its own, the last one.

    Use `running`, which makes the hosts and ends all that was started.
    """

    def __init__(self, folder: Path, setup: Setup, stack: contextlib.ExitStack) -> None:
        self.folder, self.setup, self.stack = folder, setup, stack
        self.tasks = [f"{role}:{index}" for role, index in tasks_of(dict(setup.roles))]
        self.orders, self.work = folder / "accidents", folder / "work"
        self.recording, self.heard_file = folder / "run.tfrec", folder / "heard"
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.console: subprocess.Popen[bytes] | None = None
        for made in (self.orders, self.work):
            made.mkdir()
        self._write_cluster()

    def host(self, task: str) -> int:
        return len(self.tasks) if task == "console" else self.tasks.index(task)

    def start(self) -> None:
        """Start all tasks but those that nobody starts, and the console if it is to be heard."""
        self.began = time.time()
        """Time at which it was started."""
        if self.setup.before is not None:
            self.setup.before(self)
        for task in self.tasks:
            if task not in self.setup.absent:
                self.start_agent(task)
        if self.setup.is_heard:
            self._start_console()

    def _start_console(self) -> None:
        words = ["--cluster", self.folder / "cluster.toml", "--headless", "--insecure", "--record", self.recording]
        console = [sys.executable, EAR, *words, "--out", self.folder / "run.jsonl"]
        environment = self.environment() | {"HEARD": str(self.heard_file)}
        with (self.folder / "console.err").open("ab") as said:
            self.console = subprocess.Popen(
                [*net_hosts.inside(self.host("console")), *console], env=environment, stderr=said
            )

    def start_agent(self, task: str) -> None:
        role, _, index = task.partition(":")
        own = self.setup.own.get(task, {})
        with (self.folder / f"{task}.err").open("ab") as said:
            self.agents[task] = start_agent(
                self.folder,
                self.folder / "cluster.toml",
                self.setup.indexes.get(task, int(index)),
                [sys.executable, own.get("SCRIPT", PROGRAMS / f"{self.setup.program}.py")],
                self.environment() | self._filled(self.setup.variables | own),
                role=role,
                before=[*net_hosts.inside(self.host(task)), *self._in_group(task)],
                said=said.fileno(),
            )

    def order(self, task: str, word: str) -> None:
        """Let an accident happen to a task; an empty word ends it."""
        path = self.orders / task.replace(":", "-")
        path.with_suffix(".new").write_text(word)
        path.with_suffix(".new").rename(path)

    def pid(self, task: str) -> int:
        """Return the process id of the task's program."""
        state = read_state(run_files(self.folder) / f"{task.replace(':', '-')}.state.json")
        assert state is not None and state.task_pid is not None, task
        return state.task_pid

    def signal(self, task: str, number: signal.Signals) -> None:
        os.kill(self.pid(task), number)

    def restart(self, task: str) -> None:
        """Restart a task as a person does from a console."""
        words = ["restart", task, "--yes", "--insecure", "--cluster", self.folder / "cluster.toml"]
        console = [sys.executable, "-m", "tfscale.console.cli", *words]
        subprocess.run([*net_hosts.inside(self.host("console")), *console], env=self.environment(), check=True)

    def kill_agent(self, task: str) -> None:
        self.agents[task].kill()
        self.agents[task].wait()

    def heard(self) -> list[dict[str, Any]]:
        """Return what the console has said so far, each second of it."""
        return read_lines(self.heard_file)

    def until(self, pattern: str, patience: float) -> bool:
        """Wait until the sentence on top matches; return False where it does not for so long."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            heard = self.heard()
            if heard and re.search(pattern, heard[-1]["sentence"]):
                return True
            time.sleep(0.2)
        return False

    def trains(self, patience: float) -> bool:
        """Wait until it trains as it should for some seconds; return False where it does not."""
        if not self.until(WELL, patience):
            return False
        time.sleep(SETTLED)
        return self.until(WELL, SETTLED)

    def make_pipe(self, name: str) -> None:
        """Make a pipe, whose readers wait until somebody writes."""
        os.mkfifo(self.folder / name)

    def undone(self, undo: Callable[[], object]) -> None:
        """Do this when the cluster ends."""
        self.stack.callback(undo)

    def end(self) -> None:
        """End the console, so that its recording is whole, and everything else at once."""
        if self.console is not None:
            self.console.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.console.wait(20)
        left = self._living()
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, 10)
        for started in filter(None, (self.console, *self.agents.values())):
            started.wait(10)

    def _filled(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the variables, with this cluster's folder where they name it."""
        return {name: value.replace("{folder}", str(self.folder)) for name, value in variables.items()}

    def _living(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == str(self.folder):
                    found.append(process)
        return found

    def _in_group(self, task: str) -> list[str]:
        kind = self.setup.groups.get(task)
        return [] if kind is None else groups.inside(groups.make(self, kind, task))

    def environment(self) -> dict[str, str]:
        """Return the variables of a program of this cluster, by which its end finds it."""
        places = os.pathsep.join(sys.path)
        own = {"TFSCALE_INSECURE": "1", "ACCIDENTS": str(self.orders)}
        # What is usual on this machine is no part of an incident.
        own |= dict.fromkeys(("XDG_RUNTIME_DIR", "XDG_STATE_HOME"), str(self.folder))
        return os.environ | {MARK: str(self.folder), "PYTHONPATH": places, "PYTHONUNBUFFERED": "1"} | own

    def _write_cluster(self) -> None:
        lines = ["[cluster]"]
        for role, number in self.setup.roles:
            lines.append(f"{role} = {json.dumps([self._address(f'{role}:{index}') for index in range(number)])}")
        lines.append("[agents]")
        lines += [f'"{task}" = "{net_hosts.address(self.host(task))}:{AGENT_PORT}"' for task in self.tasks]
        lines += ["[recovery]", f"policy = {json.dumps(self.setup.policy)}"] if self.setup.policy else []
        lines += ["[program]", f"directory = {json.dumps(str(self.work))}"]
        (self.folder / "cluster.toml").write_text("\n".join([*lines, ""]))

    def _address(self, task: str) -> str:
        return f"{self.setup.addresses.get(task, net_hosts.address(self.host(task)))}:{PORT}"


@contextlib.contextmanager
def running(folder: Path, setup: Setup) -> Iterator[Cluster]:
    """Start a cluster on hosts of its own, and end all of it, also what was done to it."""
    with contextlib.ExitStack() as stack:
        cluster = Cluster(folder, setup, stack)
        stack.enter_context(net_hosts.hosts(len(cluster.tasks) + 1))
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.end()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the whole lines of JSON in a file; nothing where there is no file."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]
