"""Faults of a real training: two workers of MultiWorkerMirroredStrategy that save after every epoch of five steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from signal import Signals

from faults import orders
from faults.fault import RUNS, Expectation, Fault, Setup, Unexpected
from faults.trial import Trial

LEAD, PEER = "worker:0", "worker:1"
BOTH = dict.fromkeys((LEAD, PEER), RUNS)
_VARIABLES = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "2"}
_STARTING = 400.0
"""Seconds for TensorFlow to make its first epochs, on a machine that others use as well."""
FIT = Setup(workers=2, program="backed_up", variables=_VARIABLES, table='[recovery]\npolicy = "ExitCode"')
_EPOCH = 5
RESTARTED = Expectation(
    "restarted by itself; it goes on from its checkpoint",
    BOTH,
    is_new=(LEAD, PEER),
    one_generation=True,
    most_lost=2 * _EPOCH,
    within=400,
)
UNTOUCHED = Expectation("the training goes on", BOTH, (LEAD, PEER), most_lost=0, within=60)


def _trains(trial: Trial) -> None:
    trial.until(lambda: all(len(trial.steps(task)) >= 2 for task in trial.tasks), _STARTING, "a second epoch")


def _signal(party: str, task: str, name: str) -> Callable[[Trial], None]:
    return lambda trial: trial.signal(party, task, Signals[f"SIG{name}"])


def _agent_killed(task: str) -> Callable[[Trial], str]:
    def act(trial: Trial) -> str:
        trial.signal("agent", task, Signals.SIGKILL)
        trial.agents[task].wait(60)
        time.sleep(1)
        trial.start_agent(task)
        made = len(trial.steps(PEER))
        trial.until(lambda: len(trial.steps(PEER)) > made + 1, 60, "two more epochs")
        return "two more epochs were made"

    return act


def _restart(trial: Trial) -> str:
    began = time.monotonic()
    answer = orders.order(trial.spec, "Restart", PEER, patience=200)
    if not answer.startswith("DONE"):
        raise Unexpected(f"the restart answered {answer!r}")
    return f"{answer} after {time.monotonic() - began:.1f} s"


def _row(name: str, does: str, expected: Expectation, deed: Callable[[Trial], str | None]) -> Fault:
    return Fault(name, f"{does} of a real training", expected, deed, FIT, once=_trains)


FAULTS = (
    _row("agent killed", "SIGKILL to the agent of worker:1", UNTOUCHED, _agent_killed(PEER)),
    _row("lead's agent killed", "SIGKILL to the lead's agent", UNTOUCHED, _agent_killed(LEAD)),
    _row("worker killed", "SIGKILL to worker:1", RESTARTED, _signal("task", PEER, "KILL")),
    _row("lead killed", "SIGKILL to worker:0, the lead", RESTARTED, _signal("task", LEAD, "KILL")),
    _row("shim killed", "SIGKILL to the shim of worker:1", RESTARTED, _signal("shim", PEER, "KILL")),
    _row("worker dumps core", "SIGSEGV to worker:1", RESTARTED, _signal("task", PEER, "SEGV")),
    _row(
        "restart",
        "a restart by hand",
        replace(RESTARTED, words="carried out; it goes on from its checkpoint"),
        _restart,
    ),
)
