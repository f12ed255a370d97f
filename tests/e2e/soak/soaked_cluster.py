"""Three agents and a spare, each on a host with its own disk, two consoles, and all that is done to them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import net_hosts
import psutil
from recovery.unattended_run import UnattendedRun
from tfscale.agent.supervision.shim_state import read_state

from soak.deeds import Deed

RECOVERY = """policy = "OnFailure"
backoff = "1s"
most_backoff = "4s"
replace_after = "5s"
period = "5min"
max_restarts = 1000
without_progress = 1000
cordon_after = 2"""
_ENDING = "0.5"
"""Seconds that a task takes to end."""
_SERVICE_PAUSE = 1.0
"""Seconds after which an agent that has ended is started again, as systemd does."""
_ORDER_PATIENCE = 90.0
_DONE = re.compile(r"(?P<verb>stop|start) done, generation (?P<generation>\d+)")


class SoakedCluster(UnattendedRun):
    """Cluster of a soak. Use `soaked`, which ends it.

    Agents that have ended are started again, as services are; who ended by itself is a fault.
    """

    # A minute of frames, so that memory is as large as it gets long before the end.
    flags = ("--grace", "5", "--history", "1")

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        super().__init__(folder, {"worker": 3}, 1, RECOVERY, ["held_role.py", _ENDING])
        self.faults: list[str] = []
        self.is_stopped = False
        """True from a Stop, whatever became of it, to a start that was done: only an operator starts the tasks then."""
        self._newest = 0
        """Newest generation in which an order was done: answers do not come in the order of the generations."""
        self.late: subprocess.Popen[bytes] | None = None
        self._say = say
        self._lost: set[str] = set()
        """Seats whose hosts are off."""
        self._ended: dict[str, float] = {}
        self._asked: set[int] = set()
        """Processes of agents that were killed, or asked to end."""
        self._orders: list[tuple[str, float, subprocess.Popen[str], str]] = []
        self._ends: list[tuple[float, Callable[[], object]]] = []
        """When deeds are over, and what ends each."""
        for name in (*self.seats, "console"):
            self.home(name).mkdir(mode=0o700)

    def home(self, name: str) -> Path:
        """Return the disk of a host."""
        return self.folder / f"disk-{name}"

    def start(self) -> None:
        """Start all agents, the console that records, and the one that is late."""
        for seat in self.seats:
            self.start_agent(seat)
        self.console = self._watch("--record", self.recording)
        self.late = self._watch()

    def act(self, deed: Deed) -> None:
        """Do a deed; what it does not end by itself is ended by `attend`."""
        first, subject = deed.name.split()[0].strip(","), deed.subject
        if first in ("kill", "halt"):
            self._signal(deed, signal.SIGKILL if first == "kill" else signal.SIGSTOP)
        elif first in ("cut", "part", "slow", "lose"):
            self._break(first, deed)
        elif first == "upgrade":
            self._ask_to_go(subject, lambda: self._hand_over(subject))
        elif first == "end":
            self._ask_to_go(subject, self.agents[subject].terminate)
        elif first == "late":
            assert self.late is not None
            self.late.kill()
            self._later(deed.lasts, self._start_late)
        elif first == "stop":
            self._order("stop", self.tasks[0])
            self._later(deed.lasts, lambda: self._order("start", self.tasks[0]))
        elif deed.name == "restart without":
            self._order("restart", "--without", net_hosts.address(self.seats.index(subject)))
        else:
            whose = net_hosts.address(self.seats.index(subject)) if first == "uncordon" else subject
            self._order(first, whose or self.tasks[0])

    def attend(self) -> None:
        """End the deeds that are over, start agents that have ended, and read the answers to orders."""
        now = time.monotonic()
        over = [each for each in self._ends if each[0] <= now]
        self._ends = [each for each in self._ends if each[0] > now]
        for _, ends in over:
            ends()
        for seat in self.seats:
            self._keep(seat, now)
        self._orders = [order for order in self._orders if not self._is_over(order, now)]

    def lift(self) -> None:
        """End all that was done, at once."""
        ending, self._ends = self._ends, []
        for _, ends in ending:
            ends()

    def have_started(self) -> bool:
        """Start the tasks where an operator has stopped them, once; return whether that is done, or was not needed."""
        if self.is_stopped and not self._orders:
            self._order("start", self.tasks[0])
        return not self.is_stopped

    def once(self) -> dict[str, int]:
        """Return the generation of each task that runs, as a console sees it that comes now."""
        asked = self.console_command("--once", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        told = asked.communicate(timeout=60)[0]
        statuses = {each["task"]: each["status"] for each in (json.loads(told)["tasks"] if told else [])}
        return {task: each["generation"] for task, each in statuses.items() if each and each["state"] == "running"}

    def processes(self) -> dict[str, int]:
        """Return the ids of agents and consoles."""
        assert self.late is not None
        agents = {f"agent of {seat}": agent.pid for seat, agent in self.agents.items()}
        return agents | {"console that records": self.console.pid, "late console": self.late.pid}

    def end_in_order(self) -> Iterator[str]:
        """End consoles and agents as people do; yield who does not end, and what is left then."""
        assert self.late is not None
        while self._orders:
            self.attend()
            time.sleep(0.1)
        for console in (self.console, self.late):
            console.send_signal(signal.SIGINT)
        for agent in self.agents.values():
            agent.terminate()
        parties = {**self.agents, "console that records": self.console, "late console": self.late}
        for name, party in parties.items():
            with contextlib.suppress(subprocess.TimeoutExpired):
                party.wait(40)
            if party.returncode != 0:
                yield f"{name} was asked to end, and has ended with {party.returncode}"
        for host in range(len(self.seats) + 1):
            for process in net_hosts.processes(host):
                with contextlib.suppress(psutil.Error):
                    yield f"left behind: {' '.join(psutil.Process(process).cmdline())}"
        for path in self.folder.rglob("*"):
            if path.is_socket():
                yield f"left behind: the socket {path.relative_to(self.folder)}"

    def tracebacks(self) -> list[str]:
        """Return the first traceback of each log, with the name of the log."""
        found = []
        for log in sorted(self.folder.rglob("*.log*")):
            _, is_there, told = log.read_text(errors="replace").partition("Traceback (most recent call last)")
            if is_there:
                found.append(f"{log.relative_to(self.folder)}: {told[:600]}")
        return found

    def end(self) -> None:
        for host in range(len(self.seats) + 1):
            for process in net_hosts.processes(host):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        for party in (*self.agents.values(), self.console, *([self.late] if self.late else [])):
            party.wait()

    def _watch(self, *words: str | Path) -> subprocess.Popen[bytes]:
        with self._log("consoles") as log:
            return self.console_command("--headless", "--out", os.devnull, *words, stderr=log)

    def _start_late(self) -> None:
        assert self.late is not None
        self.late.wait()  # it was killed
        self.late = self._watch()

    def _later(self, seconds: float, ends: Callable[[], object]) -> None:
        self._ends.append((time.monotonic() + seconds, ends))

    def _signal(self, deed: Deed, number: signal.Signals) -> None:
        for pid in self._parties(deed.name, deed.subject):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            if number == signal.SIGSTOP:
                self._later(deed.lasts, lambda pid=pid: _resume(pid))  # type: ignore[misc]

    def _parties(self, name: str, subject: str) -> Iterator[int]:
        """Yield the processes that a deed is done to: none where they do not live."""
        if "agent" in name and self.agents[subject].poll() is None:
            self._asked.add(self.agents[subject].pid)
            yield self.agents[subject].pid
        states = self.home(subject).rglob("*.state.json") if "agent" in name else self._states_of(subject)
        if "shim" not in name and "task" not in name:
            return
        own = {pid for host in range(len(self.seats)) for pid in net_hosts.processes(host)}
        for state in filter(None, map(read_state, states)):
            pid = state.task_pid if "task" in name else state.shim_pid
            if state.shim_pid in own and pid in own:
                yield pid

    def _states_of(self, task: str) -> Iterator[Path]:
        return self.folder.glob(f"disk-*/**/{task.replace(':', '-')}.state.json")

    def _break(self, first: str, deed: Deed) -> None:
        hosts = [self.seats.index(seat) for seat in deed.subject.split()]
        if first == "cut":
            net_hosts.cut(hosts[0])
        elif first == "part":
            for other in {*range(len(self.seats))} - {*hosts}:
                for host in hosts:
                    net_hosts.cut(host, other)
        elif first == "slow":
            net_hosts.slow(hosts[0], 200_000)
            net_hosts.lossy(hosts[0], 0.15)
        else:
            self._lost.add(deed.subject)
            self.lose_host(deed.subject)
        self._later(deed.lasts, self._free)

    def _free(self) -> None:
        """End what was done to links; hosts that were off are on again, and start their agents."""
        for host in range(len(self.seats)):
            net_hosts.free(host)
        lost, self._lost = self._lost, set()
        for seat in lost:
            self.start_agent(seat)

    def _ask_to_go(self, seat: str, ask: Callable[[], object]) -> None:
        if self.agents[seat].poll() is None:
            self._asked.add(self.agents[seat].pid)
            ask()

    def _hand_over(self, seat: str) -> None:
        leaving = self.agent_command(seat, before=["hand-over"])
        # It may wait for an agent that is halted, and goes with the round.
        self._later(20.0, lambda: _gone(leaving))

    def _keep(self, seat: str, now: float) -> None:
        """Start the agent of a seat a second after it has ended."""
        agent = self.agents[seat]
        if agent.poll() is None or seat in self._lost:
            self._ended.pop(seat, None)
            return
        if seat not in self._ended:
            self._ended[seat] = now
            if agent.pid not in self._asked:
                self.faults.append(f"the agent of {seat} ended by itself, with {agent.returncode}")
                self._say(self.faults[-1])
        elif now > self._ended[seat] + _SERVICE_PAUSE:
            self.start_agent(seat)

    def _order(self, *words: str) -> None:
        name = " ".join(words)
        answer = self.folder / f"order-{time.monotonic():.3f}.log"
        yes = [] if words[0] == "uncordon" else ["--yes"]
        with answer.open("wb") as log:
            order = self.console_command(*words, *yes, stdout=log, stderr=log)
        self._orders.append((name, time.monotonic(), order, str(answer)))

    def _is_over(self, order: tuple[str, float, subprocess.Popen[str], str], now: float) -> bool:
        """Return whether an order is answered, or has taken so long that its operator has left."""
        name, began, process, answer = order
        if process.poll() is None and now < began + _ORDER_PATIENCE:
            return False
        process.kill()
        status = process.wait()
        if status < 0:
            self.faults.append(f"{name} was not answered within {_ORDER_PATIENCE:.0f} s: {answer}")
        lines = Path(answer).read_text().splitlines() or ["nothing was said"]
        done = _DONE.search(lines[-1])
        if done and int(done["generation"]) >= self._newest:
            self.is_stopped, self._newest = done["verb"] == "stop", int(done["generation"])
        elif name.startswith("stop") and not done:
            self.is_stopped = True
        self._say(f"    {name}: {status}, after {now - began:.0f} s: {lines[-1][:160]}")
        return True


def _gone(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _resume(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def soaked(folder: Path, say: Callable[[str], None]) -> Iterator[SoakedCluster]:
    """Run the cluster of a soak until the block ends."""
    cluster = SoakedCluster(folder, say)
    with net_hosts.hosts(len(cluster.seats) + 1):
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.end()
