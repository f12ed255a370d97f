"""A cluster on this machine's loopback to which one fault happens, with all that is known of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
from local_cluster import run_files, start_agent, write_cluster
from tfscale.agent.supervision.shim_state import ShimState, read_state
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.file.cluster_file import load_cluster
from tfscale.core.cluster.placement.placement import may_move
from tfscale.core.cluster.task import Task
from tfscale.core.records.task_status import TaskStatus

from faults import orders
from faults.fault import RUNS, Setup
from faults.seats import SPARE, placed, write_hosts

PROGRAMS = Path(__file__).parents[1] / "programs"
EAR = Path(__file__).parents[1] / "incidents" / "ear.py"
MARK = "TFSCALE_TEST_TRIAL"
"""Variable by which the processes of a trial are found: agents hand their environment on."""
_TROUBLE = re.compile(r"SIG|killed|lost|exited|answers|reach|stopped by|agents? ")
"""Words of sentences about a fault of before."""
_ENDING = 40.0
"""Seconds for agents to end with their tasks."""


class Trial:
    """Agents with tasks that train, and a console. Use `running`, which ends all that was started."""

    def __init__(self, folder: Path, setup: Setup, stack: contextlib.ExitStack) -> None:
        self.folder, self.setup, self.stack = folder, setup, stack
        self.work, self.state = folder / "work", folder / "state"
        self.heard_file = folder / "heard"
        self.work.mkdir()
        self.state.mkdir()
        write = write_hosts if setup.hosts else write_cluster
        self.file = write(folder, setup.workers, *([setup.spares] if setup.hosts else []))
        self.file.write_text("\n".join([self.file.read_text(), setup.table, ""]))
        self.spec: ClusterSpec = load_cluster(self.file)
        self.tasks = [str(task) for task in self.spec.tasks]
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.console: subprocess.Popen[bytes] | None = None
        self.files: dict[str, Path] = {}
        """Cluster files of single agents, where they have one of their own."""
        self.console_file = self.file

    @property
    def run_folder(self) -> Path:
        """Folder of logs and state of the run."""
        return self.state / run_files(self.folder).name

    @property
    def parties(self) -> list[str]:
        """Names of all agents: their tasks in the cluster file, and the spare."""
        return [*self.tasks, *[SPARE] * self.setup.spares]

    @property
    def now(self) -> ClusterSpec:
        """The cluster with all tasks where they sit now."""
        return placed(self.spec) if may_move(self.spec) else self.spec

    def holder(self, task: str) -> str:
        """Return the name of the agent that holds a task now."""
        seat = next((seat for each, seat in self.now.agents.items() if str(each) == task), None)
        names = {agent: str(each) for each, agent in self.spec.agents.items()}
        return task if seat is None else names.get(seat, SPARE)

    def start(self) -> None:
        """Start the console and all agents, and wait until the tasks are in the state that the setup names."""
        if self.setup.before is not None:
            self.setup.before(self)
        if self.setup.has_console:
            self.start_console()
        for task in self.parties if self.setup.starts else ():
            self.start_agent(task)
        if self.setup.starts and self.setup.ready:
            self.until_state(self.setup.ready, self.setup.patience)
        if self.setup.starts and self.setup.ready == RUNS and self.setup.program == "counted_steps":
            self.until(lambda: all(self.steps(task) for task in self.tasks), 60, "a step of each task")
        if self.setup.starts and self.setup.has_console:
            self.until(self.heard, 120, "a sentence of the console")

    def start_agent(self, task: str, *flags: str) -> subprocess.Popen[bytes]:
        words = [word.replace("{folder}", str(self.folder)) for word in self.setup.prefix.get(task, ())]
        variables = {name: value.replace("{folder}", str(self.folder)) for name, value in self.setup.variables.items()}
        with (self.folder / f"{task}.err").open("ab") as said:
            self.agents[task] = start_agent(
                self.state,
                self.files.get(task, self.file),
                int(task.partition(":")[2] or 0),
                self.command,
                self._environment() | variables,
                before=words,
                more=[*self.setup.flags, *flags],
                said=said.fileno(),
                spare=str(next(iter(self.spec.spares))) if task == SPARE else "",
            )
        return self.agents[task]

    @property
    def command(self) -> Sequence[str | Path]:
        """Command of all tasks."""
        if self.setup.program == "sleep":
            return ["sleep", "3600"]
        more = ["1000"] if self.setup.program == "backed_up" else []
        return [sys.executable, PROGRAMS / f"{self.setup.program}.py", self.work, *more]

    def start_console(self) -> None:
        words = ["--cluster", self.console_file, "--headless", "--only", "events", "--out", self.folder / "run.jsonl"]
        with (self.folder / "console.err").open("ab") as said:
            self.console = subprocess.Popen(
                [sys.executable, EAR, *words],
                env=os.environ | self._environment() | {"HEARD": str(self.heard_file)},
                stderr=said,
            )

    def shim(self, task: str) -> ShimState | None:
        return read_state(self.path(task, "state.json"))

    def pid(self, task: str) -> int | None:
        """Return the process of a task's newest start; None where it has none."""
        state = self.shim(task)
        return None if state is None else state.task_pid

    def path(self, task: str, ending: str) -> Path:
        """Return a file of the agent or the shim of a task, such as `state.json`."""
        folder, holder = self.run_folder, self.holder(task)
        if holder != task:
            seat = self.now.agents[Task.parse(task)]
            folder /= f"seat-{seat.host}-{seat.port}"
        return folder / f"{task.replace(':', '-')}.{ending}"

    def process(self, party: str, task: str) -> int:
        """Return the process id of a party: the agent, shim, task or child of a task, or the console."""
        if party == "agent":
            return self.agents[task].pid
        if party == "console":
            assert self.console is not None
            return self.console.pid
        if party == "child":
            return int((self.work / f"{task.replace(':', '-')}.child").read_text())
        state = self.shim(task)
        found = None if state is None else state.shim_pid if party == "shim" else state.task_pid
        assert found is not None, f"{task} has no {party}"
        return found

    def signal(self, party: str, task: str, number: signal.Signals) -> None:
        os.kill(self.process(party, task), number)

    def statuses(self) -> dict[str, TaskStatus | None]:
        """Return the status of each task, None where its agent does not answer. A vacant one is left out."""
        return orders.statuses(self.now)

    def states(self) -> dict[str, str]:
        """Return the state of each task in words, as its agent tells it: `exited 143: ...`, `no answer`."""
        return {task: words(status) for task, status in self.statuses().items()}

    def until_state(self, pattern: str, patience: float = 60.0) -> None:
        """Wait until the states of all tasks match. Raises AssertionError where they do not for so long."""
        self.until(
            lambda: all(re.search(pattern, state) for state in self.states().values()), patience, f"the state {pattern}"
        )

    def until(self, holds: Callable[[], object], patience: float, what: str) -> None:
        """Wait until a function returns something true. Raises AssertionError after so many seconds."""
        deadline = time.monotonic() + patience
        while not holds():
            if time.monotonic() > deadline:
                errors = " / ".join(self.said(task)[-300:] for task in self.agents)
                raise AssertionError(f"{what} never came: {errors}")
            time.sleep(0.05)

    def heard(self) -> list[dict[str, Any]]:
        """Return what the console has said so far, each second of it."""
        lines = self.heard_file.read_text().splitlines(keepends=True) if self.heard_file.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def said(self, task: str) -> str:
        """Return what the agent of a task has written to stderr."""
        path = self.folder / f"{task}.err"
        return path.read_text(errors="replace") if path.exists() else ""

    def steps(self, task: str) -> list[tuple[int, int]]:
        """Return (process, step) of each step that a task has made, in their order."""
        name = task.replace(":", "-")
        path = self.work / f"{name}.steps"
        path = path if path.exists() else self.work / f"{name}.epochs"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        times = 5 if path.suffix == ".epochs" else 1
        return [(int(pid), times * int(step)) for pid, step in (line.split() for line in lines if line.endswith("\n"))]

    def order(self, task: str, word: str) -> None:
        """Tell the program of a task to do something."""
        path = self.work / f"{task.replace(':', '-')}.order"
        path.with_suffix(".new").write_text(word)
        path.with_suffix(".new").rename(path)

    def living(self) -> list[psutil.Process]:
        """Return the processes of this trial that are alive."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == str(self.folder) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def mend(self) -> bool:
        """Make the cluster as it was before a fault, by what operators do; return False where that fails."""
        with contextlib.suppress(psutil.Error, AssertionError):
            for process in self.living():
                process.resume()
            for task in self.tasks:
                if self.agents[task].poll() is not None:
                    self.start_agent(task)
            if self.console is not None and self.console.poll() is not None:
                self.heard_file.unlink(missing_ok=True)
                self.start_console()
            self.until(lambda: "no answer" not in self.states().values(), 60, "an answer of each agent")
            if not all(state.startswith("running") for state in self.states().values()):
                orders.order(self.spec, "Restart", *self.tasks)
            self.until_state("^running")
            self.until(self._is_calm, 60, "a usual sentence")
            self.until(self._makes_steps, 60, "a step of each task")
            return True
        return False

    def _is_calm(self) -> bool:
        heard = self.heard()
        return bool(heard) and not _TROUBLE.search(heard[-1]["sentence"])

    def _makes_steps(self) -> bool:
        newest = {task: self.steps(task)[-1:] for task in self.tasks}
        return all(steps and steps[0][0] == self.pid(task) for task, steps in newest.items())

    def too_many(self) -> str:
        """Return the processes if they are more than agents, shims, tasks, children of the tasks and the console."""
        expected = 4 * len(self.tasks) + (self.console is not None)
        names = sorted(process.name() for process in self.living())
        return ", ".join(names) if len(names) > expected else ""

    def end_in_order(self) -> str:
        """Ask all agents to end; return what is left then, nothing if all is as it should be.

        Where an agent has ended before, or is stopped, tasks may live on: nothing is judged then.
        """
        is_whole = all(agent.poll() is None and _is_awake(agent.pid) for agent in self.agents.values())
        if not self.agents or not is_whole:
            return ""
        for agent in self.agents.values():
            agent.terminate()
        for task, agent in self.agents.items():
            try:
                agent.wait(_ENDING)
            except subprocess.TimeoutExpired:
                return f"the agent of {task} did not end within {_ENDING:.0f} s"
        time.sleep(0.1)
        console = self.console.pid if self.console is not None else None
        left = [process for process in self.living() if process.pid != console]
        return f"left behind: {', '.join(process.name() for process in left)}" if left else ""

    def end_at_once(self) -> None:
        """Kill everything."""
        for _ in range(3):  # what was just forked has its variables a moment later
            left = self.living()
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(left, 5)
        for started in (*self.agents.values(), *([self.console] if self.console else [])):
            started.kill()
            started.wait(10)

    def _environment(self) -> dict[str, str]:
        places = os.pathsep.join(sys.path)
        return {MARK: str(self.folder), "PYTHONPATH": places, "PYTHONUNBUFFERED": "1"}


def words(status: TaskStatus | None) -> str:
    """Return a status as the patterns of expectations read it."""
    if status is None:
        return "no answer"
    end = status.exit
    how = "" if end is None else f" SIG{end.signal}" if end.signal is not None else f" {end.code}"
    if end is not None and end.signal is not None:
        how = f" {signal.Signals(end.signal).name}"
    why = f": {status.reason}" if status.reason and status.state.value != "running" else ""
    return f"{status.state}{how}{why}"


def is_alive(pid: int | None) -> bool:
    try:
        return pid is not None and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _is_awake(pid: int) -> bool:
    return is_alive(pid) and psutil.Process(pid).status() != psutil.STATUS_STOPPED


@contextlib.contextmanager
def running(setup: Setup) -> Iterator[Trial]:
    """Start a trial, and end all of it, whatever happens in it: processes, mounts, files and variables."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tfscale-faults-")))
        kept = {name: os.environ.get(name) for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME")}
        stack.callback(_restore, kept)
        os.environ.update({name: str(folder / name) for name in kept})
        for name in kept:
            (folder / name).mkdir(mode=0o700)
        trial = Trial(folder, setup, stack)
        # Registered before anything is done to it, so that it comes last: nothing may hold what is unmounted.
        ending = contextlib.ExitStack()
        ending.callback(trial.end_at_once)
        try:
            trial.start()
            yield trial
        finally:
            ending.close()


def _restore(kept: dict[str, str | None]) -> None:
    for name, value in kept.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
