"""Signals to each party, in each of its states."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from signal import Signals

import psutil

from faults import orders
from faults.fault import RUNS, Expectation, Fault, Setup, Unexpected
from faults.trial import Trial, is_alive

SIGNALS = ("TERM", "KILL", "STOP", "CONT", "HUP", "INT", "USR1", "QUIT", "SEGV")
W0, W1 = "worker:0", "worker:1"
SAME = Expectation("nothing: the task runs on", states={W0: RUNS}, lives=(W0,), most_lost=0)


def _to(party: str, name: str, task: str = W0) -> Callable[[Trial], None]:
    return lambda trial: trial.signal(party, task, Signals[f"SIG{name}"])


def _then_agent(party: str, name: str, task: str = W0, pause: float = 1.0) -> Callable[[Trial], None]:
    """Return a deed: the signal, and a second later the agent is started again if it has ended."""

    def act(trial: Trial) -> None:
        trial.signal(party, task, Signals[f"SIG{name}"])
        time.sleep(pause)
        if name == "STOP":
            trial.signal(party, task, Signals.SIGCONT)
        elif trial.agents[task].poll() is not None:
            trial.start_agent(task)

    return act


def _exited(how: str, words: str) -> Expectation:
    return Expectation(words, states={W0: rf"^exited {how}"}, said=rf"{W0}|all|ended|stopped")


def _lost(words: str) -> Expectation:
    return Expectation(words, states={W0: r"^lost"}, said=r"worker:0")


def _of_agent(name: str) -> tuple[Expectation, Callable[[Trial], None]]:
    if name in ("TERM", "INT"):
        ended = Expectation("agent and task end in order", agents={W0: "^0$"})
        return ended, _to("agent", name)
    if name == "CONT":
        return SAME, _to("agent", name)
    adopted = Expectation(
        "the task runs on; the agent that is started again adopts it",
        states={W0: RUNS},
        lives=(W0,),
        most_lost=0,
    )
    if name == "STOP":
        adopted = Expectation(
            "the task runs on, and the agent after SIGCONT", states={W0: RUNS}, lives=(W0,), most_lost=0
        )
    return adopted, _then_agent("agent", name)


def _of_shim(name: str) -> tuple[Expectation, Callable[[Trial], None]]:
    if name == "TERM":
        return _exited("143", "the shim ends the task in order"), _to("shim", name)
    if name == "INT":
        return _exited("SIGKILL", "the shim kills the task"), _to("shim", name)
    if name == "CONT":
        return SAME, _to("shim", name)
    if name == "STOP":
        told = Expectation(
            "the task runs on, and the stop is told", {W0: RUNS}, (W0,), log={W0: "stopped"}, most_lost=0
        )
        return told, _to("shim", name)
    return _lost("the task is lost, and what is left of it is killed"), _to("shim", name)


def _of_task(name: str) -> tuple[Expectation, Callable[[Trial], None]]:
    if name == "CONT":
        return SAME, _to("task", name)
    if name == "STOP":
        return Expectation("the task stands still, and lives", {W0: RUNS}, (W0,), said="signal has stopped"), _to(
            "task", name
        )
    if name == "TERM":
        return _exited("143", "the program ends as it does at SIGTERM"), _to("task", name)
    return _exited(f"SIG{name}", f"the task's end by SIG{name} is told"), _to("task", name)


def _of_others(party: str, name: str) -> tuple[Expectation, Callable[[Trial], None]]:
    return SAME, _to(party, name)


def _rows() -> list[Fault]:
    ways = {"agent": _of_agent, "shim": _of_shim, "task": _of_task}
    found = []
    for party in ("agent", "shim", "task", "child", "console"):
        for name in SIGNALS:
            expected, act = ways[party](name) if party in ways else _of_others(party, name)
            whom = {"child": "a child of the task", "console": "the console"}.get(party, f"the {party}")
            quick = (party, name) in (("agent", "KILL"), ("shim", "KILL"), ("task", "KILL"))
            found.append(Fault(f"{name} to {party}", f"SIG{name} to {whom} that runs", expected, act, quick=quick))
    return found


PAIR = Setup(workers=2)


def _of_pair(who: str, party: str, name: str) -> Fault:
    """Return a signal to a party of the lead or its peer: the other's training goes on."""
    task, other = (W0, W1) if who == "lead" else (W1, W0)
    mine = {
        ("agent", "KILL"): RUNS,
        ("agent", "STOP"): RUNS,
        ("shim", "KILL"): "^lost",
        ("shim", "STOP"): RUNS,
        ("task", "KILL"): "^exited SIGKILL",
        ("task", "STOP"): RUNS,
        ("task", "SEGV"): "^exited SIGSEGV",
    }[party, name]
    lives = (W0, W1) if mine == RUNS else (other,)
    expected = Expectation(
        f"the training of {other} goes on" + (f", and that of {task}" if party == "agent" else ""),
        states={task: mine, other: RUNS},
        lives=lives,
        said="" if mine == RUNS else task,
        most_lost=0,
    )
    act = _then_agent(party, name, task) if party == "agent" else _to(party, name, task)
    return Fault(f"two: {name} to {party} of {who}", f"SIG{name} to the {party} of {task}, of two", expected, act, PAIR)


def _when(condition: Callable[[Trial], int | None], name: str) -> Callable[[Trial], None]:
    """Return a deed that sends the signal to a process as soon as there is one."""

    def act(trial: Trial) -> None:
        trial.start_agent(W0)
        deadline = time.monotonic() + 60
        while (pid := condition(trial)) is None:
            if time.monotonic() > deadline:
                raise AssertionError("there was no such process")
            time.sleep(0.001)
        try:
            os.kill(pid, Signals[f"SIG{name}"])
        except ProcessLookupError:
            raise AssertionError("the process had ended before") from None
        if trial.agents[W0].pid == pid:
            trial.agents[W0].wait(60)
            time.sleep(0.5)
            trial.start_agent(W0)

    return act


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


STARTING = Setup(starts=False)
_STARTS = (
    Fault(
        "starting: KILL to agent",
        "SIGKILL to the agent while its shim starts; the agent is started again",
        Expectation("one task runs", {W0: RUNS}, is_new=(W0,)),
        _when(_starting_agent, "KILL"),
        STARTING,
    ),
    Fault(
        "starting: TERM to agent",
        "SIGTERM to the agent while its shim starts; the agent is started again",
        Expectation("agent and task end, and the next agent starts cold", {W0: RUNS}, is_new=(W0,)),
        _when(_starting_agent, "TERM"),
        STARTING,
    ),
    Fault(
        "starting: KILL to shim",
        "SIGKILL to the shim while it starts",
        Expectation("the task is lost, and no process is left", {W0: "^lost"}),
        _when(_starting_shim, "KILL"),
        STARTING,
    ),
    Fault(
        "starting: TERM to shim",
        "SIGTERM to the shim while it starts",
        Expectation("the task ends, and no process is left", {W0: "^(lost|exited)"}),
        _when(_starting_shim, "TERM"),
        STARTING,
    ),
    Fault(
        "starting: STOP to shim",
        "SIGSTOP to the shim while it starts",
        Expectation("it is told", {W0: "^(starting|running)"}, log={W0: "stopped"}, within=60),
        _when(_starting_shim, "STOP"),
        STARTING,
    ),
    Fault(
        "starting: KILL to task",
        "SIGKILL to the task as soon as it has a process",
        Expectation("its end is told", {W0: "^exited SIGKILL"}),
        _when(_starting_task, "KILL"),
        STARTING,
    ),
    Fault(
        "starting: TERM to task",
        "SIGTERM to the task before its program has begun",
        Expectation("its end is told", {W0: "^exited (SIGTERM|143)"}),
        _when(_starting_task, "TERM"),
        STARTING,
    ),
)
SLOW_END = Setup(variables={"ENDING": "3"})


def _stopping(party: str, name: str) -> Callable[[Trial], str]:
    """Return a deed that sends the signal while the task ends as it was ordered to."""

    def act(trial: Trial) -> str:
        last: list[str] = []
        asking = threading.Thread(target=lambda: last.append(orders.order(trial.spec, "Stop", W0)))
        asking.start()
        trial.until_state("^stopping", 10)
        trial.signal(party, W0, Signals[f"SIG{name}"])
        if party == "agent":
            trial.agents[W0].wait(60)
            trial.start_agent(W0)
        asking.join(40)
        return f"the order's answer: {last[0][:80]}"

    return act


def _row_of_stopping(party: str, name: str, words: str, state: str) -> Fault:
    return Fault(
        f"stopping: {name} to {party}",
        f"SIG{name} to the {party} while the task takes 3 s to end",
        Expectation(words, {W0: state}, within=60),
        _stopping(party, name),
        SLOW_END,
    )


_STOPS = (
    _row_of_stopping("agent", "KILL", "the task ends, as the next agent tells", "^exited 143"),
    _row_of_stopping("agent", "TERM", "agent and task end; the next agent starts cold", RUNS),
    _row_of_stopping("shim", "KILL", "the task is lost, and killed", "^lost"),
    _row_of_stopping("shim", "TERM", "the task ends once", "^exited 143"),
    _row_of_stopping("shim", "STOP", "the shim is continued, and the task ends", "^exited 143"),
    _row_of_stopping("task", "KILL", "the task has ended", "^exited SIGKILL"),
    _row_of_stopping("task", "STOP", "the task is killed after the grace period", "^exited SIGKILL"),
    _row_of_stopping("task", "TERM", "the task ends once", "^exited"),
)
ENDED = Setup(variables={"LAST": "20"}, ready="^exited 0")


def _row_of_ended(name: str) -> Fault:
    is_end = name in ("TERM", "INT")
    expected = Expectation(
        "the agent ends with 0" if is_end else "the next agent tells the end, and starts nothing",
        states={} if is_end else {W0: "^exited 0"},
        agents={W0: "^0$"} if is_end else {},
        most_lost=0,
    )
    act = _to("agent", name) if is_end else _then_agent("agent", name)
    return Fault(f"ended: {name} to agent", f"SIG{name} to the agent of a finished run", expected, act, ENDED)


def _second_term(trial: Trial) -> None:
    trial.signal("agent", W0, Signals.SIGTERM)
    time.sleep(0.5)
    pid = trial.pid(W0)
    trial.signal("agent", W0, Signals.SIGTERM)
    trial.agents[W0].wait(60)
    if is_alive(pid):
        raise Unexpected("the task lives")


FAULTS = (
    *_rows(),
    *(
        _of_pair(who, party, name)
        for who in ("lead", "peer")
        for party, name in (
            ("agent", "KILL"),
            ("agent", "STOP"),
            ("shim", "KILL"),
            ("shim", "STOP"),
            ("task", "KILL"),
            ("task", "STOP"),
            ("task", "SEGV"),
        )
    ),
    *_STARTS,
    *_STOPS,
    *(_row_of_ended(name) for name in ("TERM", "KILL", "INT", "USR1", "HUP", "STOP")),
    Fault(
        "stopping: second TERM to agent",
        "a second SIGTERM to the agent while its task takes 3 s to end",
        Expectation("the task is killed, and the agent ends", agents={W0: "^0$"}),
        _second_term,
        SLOW_END,
    ),
)
