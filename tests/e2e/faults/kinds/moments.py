"""Signals to each party while a task starts, while it ends as it was ordered to, and after it has ended."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from signal import Signals

import psutil

from faults import orders
from faults.fault import RUNS, Expectation, Fault, Setup, Unexpected
from faults.kinds.signals import FROM_TERMINAL, SIGNALS, W0, send, then_agent
from faults.trial import Trial, is_alive

_PARTIES = {
    "agent": "the agent",
    "shim": "the shim",
    "task": "the task",
    "child": "a child of the task",
    "console": "the console",
}


def _when(party: str, name: str) -> Callable[[Trial], None]:
    """Return a deed that sends the signal to a process as soon as there is one."""
    find = {"agent": _starting_agent, "shim": _starting_shim, "task": _starting_task}[party]

    def act(trial: Trial) -> None:
        trial.start_agent(W0)
        deadline = time.monotonic() + 60
        while (pid := find(trial)) is None:
            if time.monotonic() > deadline:
                raise AssertionError("there was no such process")
            time.sleep(0.001)
        try:
            os.kill(pid, Signals[f"SIG{name}"])
        except ProcessLookupError:
            raise AssertionError("the process had ended before") from None
        if party == "agent":
            _next_agent(trial, name)

    return act


def _next_agent(trial: Trial, name: str) -> None:
    """Start the agent again where the signal has ended it, or continue it where that has stopped it."""
    if name == "STOP":
        time.sleep(1)
        trial.signal("agent", W0, Signals.SIGCONT)
    elif name not in ("CONT", "USR1"):
        trial.agents[W0].wait(60)
        time.sleep(0.5)
        trial.start_agent(W0)


def _starting_shim(trial: Trial) -> int | None:
    for child in psutil.Process(trial.agents[W0].pid).children():
        try:
            if "-IS" in child.cmdline():
                return child.pid
        except psutil.Error:
            continue
    return None


def _starting_agent(trial: Trial) -> int | None:
    return trial.agents[W0].pid if _starting_shim(trial) is not None else None


def _starting_task(trial: Trial) -> int | None:
    return trial.pid(W0)


def _start(party: str, name: str) -> Expectation:
    """Return what must be so after a signal to a party of a task that starts."""
    if party == "agent" and (name == "TERM" or name in FROM_TERMINAL):
        return Expectation("agent and task end, and the next agent starts cold", {W0: RUNS}, is_new=(W0,))
    if party == "agent" and name == "USR1":
        return Expectation("the task gets it as soon as it runs, and ends by it", {W0: "^exited SIGUSR1"})
    if party == "agent" or name == "CONT":
        return Expectation("one task runs", {W0: RUNS}, is_new=(W0,))
    if party == "shim" and name == "STOP":
        return Expectation("it is told", {W0: "^(starting|running)"}, log={W0: "stopped"}, within=60)
    if party == "shim":
        if name in ("USR1", *FROM_TERMINAL):
            return Expectation("nothing, or the shim is not ready and the task is lost", {W0: "^(lost|running)"})
        is_order = name == "TERM"
        words = "the task ends, and no process is left" if is_order else "the task is lost, and no process is left"
        return Expectation(words, {W0: "^(lost|exited)" if is_order else "^lost"})
    if name == "STOP":
        return Expectation("the task stands still, and lives", {W0: "^(starting|running)"})
    # Python tells an interrupt by the exit status 1 where that comes before it can do so by the signal.
    end = {"TERM": "SIGTERM|143", "INT": "SIGINT|1$"}.get(name, f"SIG{name}")
    return Expectation("its end is told", {W0: rf"^exited ({end})"})


def _row_of_start(party: str, name: str) -> Fault:
    moment = "as soon as it has a process" if party == "task" else "while it starts"
    moment = "while its shim starts" if party == "agent" else moment
    again = "; the agent is started again" if party == "agent" and name not in ("STOP", "CONT") else ""
    again = ", for 1 s" if party == "agent" and name == "STOP" else again
    does = f"SIG{name} to {_PARTIES[party]} {moment}{again}"
    return Fault(f"starting: {name} to {party}", does, _start(party, name), _when(party, name), Setup(starts=False))


def _stopping(party: str, name: str) -> Callable[[Trial], str]:
    """Return a deed that sends the signal while the task ends as it was ordered to."""

    def act(trial: Trial) -> str:
        last: list[str] = []
        asking = threading.Thread(target=lambda: last.append(orders.order(trial.spec, "Stop", W0)))
        asking.start()
        trial.until_state("^stopping", 10)
        trial.signal(party, W0, Signals[f"SIG{name}"])
        if party == "agent" and name not in FROM_TERMINAL:
            _next_agent(trial, name)
        asking.join(40)
        return f"the order's answer: {last[0][:80]}"

    return act


def _stop(party: str, name: str) -> tuple[str, str]:
    """Return what must be so after a signal to a party of a task that is being stopped, and the task's state."""
    is_order, is_nothing = name == "TERM", name in ("STOP", "CONT")
    if party == "agent" and is_order:
        return "agent and task end; the next agent starts cold", RUNS
    if party == "agent" and name in ("USR1", *FROM_TERMINAL):
        return "the task gets it, and ends by it", rf"^exited (SIG{name}{'|1$' * (name == 'INT')})"
    if party == "shim" and name in ("USR1", *FROM_TERMINAL):
        return "the task ends once", "^exited 143"
    if party == "agent" and not is_nothing:
        return "the task ends, as the next agent tells", "^exited 143"
    if party == "shim" and name == "STOP":
        return "the shim is continued, and the task ends", "^exited 143"
    if party == "shim" and not (is_order or is_nothing):
        return "the task is lost, and killed", "^lost"
    if party == "task" and name == "STOP":
        return "the task is killed after the grace period", "^exited SIGKILL"
    if party == "task" and name not in ("TERM", "CONT"):
        return "the task has ended", f"^exited SIG{name}"
    return "the task ends once", "^exited 143"


SLOW_END = Setup(variables={"ENDING": "3"})


def _row_of_stop(party: str, name: str) -> Fault:
    words, state = _stop(party, name)
    does = f"SIG{name} to {_PARTIES[party]} while the task takes 3 s to end"
    return Fault(
        f"stopping: {name} to {party}",
        does,
        Expectation(words, {W0: state}, within=60),
        _stopping(party, name),
        SLOW_END,
    )


ENDED = Setup(variables={"LAST": "20"}, ready="^exited 0")


def _row_of_end(party: str, name: str) -> Fault:
    is_order = party == "agent" and (name == "TERM" or name in FROM_TERMINAL)
    is_told_by_next = party == "agent" and name != "USR1"
    tells = "the agent tells the end, and starts nothing"
    expected = Expectation(
        "the agent ends with 0" if is_order else tells.replace("the agent", "the next agent", is_told_by_next),
        states={} if is_order else {W0: "^exited 0"},
        agents={W0: "^0$"} if is_order else {},
        most_lost=0,
    )
    act = then_agent(party, name) if is_told_by_next and not is_order else send(party, name)
    return Fault(f"ended: {name} to {party}", f"SIG{name} to {_PARTIES[party]} of a finished run", expected, act, ENDED)


def _second_term(trial: Trial) -> None:
    trial.signal("agent", W0, Signals.SIGTERM)
    time.sleep(0.5)
    pid = trial.pid(W0)
    trial.signal("agent", W0, Signals.SIGTERM)
    trial.agents[W0].wait(60)
    if is_alive(pid):
        raise Unexpected("the task lives")


FAULTS = (
    *(_row_of_start(party, name) for party in ("agent", "shim", "task") for name in SIGNALS),
    *(_row_of_stop(party, name) for party in _PARTIES for name in SIGNALS),
    *(_row_of_end(party, name) for party in ("agent", "console") for name in SIGNALS),
    Fault(
        "stopping: second TERM to agent",
        "a second SIGTERM to the agent while its task takes 3 s to end",
        Expectation("the task is killed, and the agent ends", agents={W0: "^0$"}),
        _second_term,
        SLOW_END,
    ),
)
