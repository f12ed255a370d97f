"""Signals to each party while its task runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from signal import Signals

from faults.fault import RUNS, Expectation, Fault, Setup
from faults.trial import Trial

SIGNALS = ("TERM", "KILL", "STOP", "CONT", "HUP", "INT", "USR1", "QUIT", "SEGV")
FROM_TERMINAL = ("HUP", "INT", "QUIT")
"""Signals that an agent passes on, and after which it leaves with its task."""
W0, W1 = "worker:0", "worker:1"
SAME = Expectation("nothing: the task runs on", states={W0: RUNS}, lives=(W0,), most_lost=0)


def send(party: str, name: str, task: str = W0) -> Callable[[Trial], None]:
    """Return a deed: the signal to a party."""
    return lambda trial: trial.signal(party, task, Signals[f"SIG{name}"])


def then_agent(party: str, name: str, task: str = W0, pause: float = 1.0) -> Callable[[Trial], None]:
    """Return a deed: the signal, and the agent is started again, or continued, a second after that."""

    def act(trial: Trial) -> None:
        trial.signal(party, task, Signals[f"SIG{name}"])
        if name not in ("STOP", "CONT"):
            trial.agents[task].wait(60)
        time.sleep(pause)
        if name == "STOP":
            trial.signal(party, task, Signals.SIGCONT)
        elif name != "CONT":
            trial.start_agent(task)

    return act


def _exited(how: str, words: str) -> Expectation:
    return Expectation(words, states={W0: rf"^exited {how}"}, said=rf"{W0}|all|ended|stopped")


def _lost(words: str) -> Expectation:
    return Expectation(words, states={W0: r"^lost"}, said=r"worker:0")


def _of_agent(name: str) -> tuple[Expectation, Callable[[Trial], None]]:
    if name == "TERM" or name in FROM_TERMINAL:
        ended = Expectation("agent and task end in order", agents={W0: "^0$"})
        return ended, send("agent", name)
    if name == "USR1":
        return _exited("SIGUSR1", "the task gets it, and ends by it"), send("agent", name)
    if name == "CONT":
        return SAME, send("agent", name)
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
    return adopted, then_agent("agent", name)


def _of_shim(name: str) -> tuple[Expectation, Callable[[Trial], None]]:
    if name == "TERM":
        return _exited("143", "the shim ends the task in order"), send("shim", name)
    if name in ("CONT", "USR1", *FROM_TERMINAL):
        return SAME, send("shim", name)
    if name == "STOP":
        told = Expectation(
            "the task runs on, and the stop is told", {W0: RUNS}, (W0,), log={W0: "stopped"}, most_lost=0
        )
        return told, send("shim", name)
    return _lost("the task is lost, and what is left of it is killed"), send("shim", name)


def _of_task(name: str) -> tuple[Expectation, Callable[[Trial], None]]:
    if name == "CONT":
        return SAME, send("task", name)
    if name == "STOP":
        return Expectation("the task stands still, and lives", {W0: RUNS}, (W0,), said="signal has stopped"), send(
            "task", name
        )
    if name == "TERM":
        return _exited("143", "the program ends as it does at SIGTERM"), send("task", name)
    return _exited(f"SIG{name}", f"the task's end by SIG{name} is told"), send("task", name)


def _of_others(party: str, name: str) -> tuple[Expectation, Callable[[Trial], None]]:
    return SAME, send(party, name)


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
    act = then_agent(party, name, task) if party == "agent" else send(party, name, task)
    return Fault(f"two: {name} to {party} of {who}", f"SIG{name} to the {party} of {task}, of two", expected, act, PAIR)


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
)
