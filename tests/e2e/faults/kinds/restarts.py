"""Signals to each party at each stage of a restart of two workers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from signal import Signals

from faults import orders
from faults.fault import RUNS, Expectation, Fault, Setup
from faults.kinds.signals import SIGNALS
from faults.trial import Trial

LEAD, PEER = "worker:0", "worker:1"
BOTH = (LEAD, PEER)
PAIR = Setup(workers=2, variables={"ENDING": "1"})
_PARTIES = {
    "the lead's agent": ("agent", LEAD),
    "the peer's agent": ("agent", PEER),
    "the lead's shim": ("shim", LEAD),
    "the peer's shim": ("shim", PEER),
    "the lead's task": ("task", LEAD),
    "the peer's task": ("task", PEER),
    "the console": ("console", PEER),
}
_LOST = 10
"""Most steps that a restart costs: as many as a checkpoint's period."""
_GOES_ON = Expectation(
    "the restart goes on: both run in one generation",
    states=dict.fromkeys(BOTH, RUNS),
    is_new=BOTH,
    one_generation=True,
    most_lost=_LOST,
    within=90,
)


def _at(stage: str, party: str, task: str, name: str) -> Callable[[Trial], str]:
    """Return a deed: a restart, and the signal as soon as that is at the stage."""

    def act(trial: Trial) -> str:
        old = trial.process(party, task)
        of = BOTH if stage == "stopped" else (task,)
        restart = orders.Restarting(trial.spec, stage.upper(), BOTH, of)
        pid = _started(trial, party, task, old) if stage == "starting" else old
        os.kill(pid, Signals[f"SIG{name}"])
        if party == "agent":
            _back(trial, task, name)
        return f"the restart's last word: {restart.last[:80] or 'none'}"

    return act


def _started(trial: Trial, party: str, task: str, old: int) -> int:
    """Return the process of a party once it is the one that is started."""
    if party not in ("shim", "task"):
        return old
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        state = trial.shim(task)
        pid = None if state is None else state.shim_pid if party == "shim" else state.task_pid
        if pid not in (None, old):
            return pid
        time.sleep(0.001)
    raise AssertionError("there was no new process")


def _back(trial: Trial, task: str, name: str) -> None:
    """Let an agent that a signal has stopped or ended be back after a second."""
    time.sleep(1)
    if name == "STOP":
        trial.signal("agent", task, Signals.SIGCONT)
    elif name != "CONT":
        trial.agents[task].wait(60)
        trial.start_agent(task)


def _expected(stage: str, party: str, task: str, name: str) -> Expectation:
    if party in ("agent", "console") or name == "CONT" or (party, stage) == ("task", "stopping"):
        return _GOES_ON
    other = PEER if task == LEAD else LEAD
    own = r"^(starting|running)" if name == "STOP" else r"^(running|exited|lost)"
    words = "it is continued, or stands still" if name == "STOP" else "the loss is told, or mended"
    words = "the end is told, or mended" if party == "task" and name != "STOP" else words
    return Expectation(f"{words}; {other} runs", {other: RUNS, task: own}, within=60)


def _row(stage: str, whom: str, name: str) -> Fault:
    party, task = _PARTIES[whom]
    back = "" if party != "agent" or name == "CONT" else " for 1 s" if name == "STOP" else ", back after 1 s"
    words = f"SIG{name} to {whom}{back}"
    return Fault(
        f"{stage}: {words}",
        f"{words}, while the gang is {stage}",
        _expected(stage, party, task, name),
        _at(stage, party, task, name),
        PAIR,
    )


def _is_there(stage: str, party: str) -> bool:
    """Return whether there is such a process then: between two starts there is neither shim nor task."""
    return stage != "stopped" or party in ("agent", "console")


FAULTS = tuple(
    _row(stage, whom, name)
    for stage in ("stopping", "stopped", "starting")
    for whom, (party, _) in _PARTIES.items()
    for name in SIGNALS
    if _is_there(stage, party)
)
