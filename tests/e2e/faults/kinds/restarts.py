"""Parties that are killed or stopped at each stage of a restart of two workers."""

from __future__ import annotations

import time
from collections.abc import Callable
from signal import Signals

from faults import orders
from faults.fault import RUNS, Expectation, Fault, Setup
from faults.trial import Trial

LEAD, PEER = "worker:0", "worker:1"
BOTH = (LEAD, PEER)
PAIR = Setup(workers=2, variables={"ENDING": "1"})
_STAGES = {"stopping": ("STOPPING", (PEER,)), "stopped": ("STOPPED", BOTH), "starting": ("STARTING", (PEER,))}
"""Stage of a restart, and the tasks that must have come to it."""
_LOST = 10
"""Most steps that a restart costs: as many as a checkpoint's period."""


def _at(stage: str, deed: Callable[[Trial], None]) -> Callable[[Trial], str]:
    def act(trial: Trial) -> str:
        restart = orders.Restarting(trial.spec, _STAGES[stage][0], BOTH, _STAGES[stage][1])
        deed(trial)
        return f"the restart's last word: {restart.last[:80] or 'none'}"

    return act


def _kill_agent(task: str, name: str) -> Callable[[Trial], None]:
    """Return a deed: the agent is killed, or stopped, and back a second later."""

    def act(trial: Trial) -> None:
        trial.signal("agent", task, Signals[f"SIG{name}"])
        time.sleep(1)
        if name == "STOP":
            trial.signal("agent", task, Signals.SIGCONT)
            return
        trial.agents[task].wait(60)
        trial.start_agent(task)

    return act


def _kill(party: str, name: str) -> Callable[[Trial], None]:
    def act(trial: Trial) -> None:
        # Between two starts the process has just ended, or is not there yet.
        try:
            trial.signal(party, PEER, Signals[f"SIG{name}"])
        except (ProcessLookupError, AssertionError):
            return

    return act


def _row(stage: str, whom: str, deed: Callable[[Trial], None], expected: Expectation) -> Fault:
    name = f"{stage}: {whom}"
    return Fault(name, f"{whom}, while the gang is {stage}", expected, _at(stage, deed), PAIR)


_GOES_ON = Expectation(
    "the restart goes on: both run in one generation",
    states=dict.fromkeys(BOTH, RUNS),
    is_new=BOTH,
    one_generation=True,
    most_lost=_LOST,
    within=90,
)


def _mended(state: str) -> Expectation:
    return Expectation(f"{state}; the lead runs", {LEAD: RUNS, PEER: r"^(running|exited|lost)"}, within=30)


def _ends(trial: Trial) -> None:
    """End the caller: another order is given by nobody."""
    assert trial.console is not None
    trial.console.kill()


FAULTS = tuple(
    fault
    for stage in _STAGES
    for fault in (
        _row(stage, "SIGKILL to the lead's agent, back after 1 s", _kill_agent(LEAD, "KILL"), _GOES_ON),
        _row(stage, "SIGKILL to the peer's agent, back after 1 s", _kill_agent(PEER, "KILL"), _GOES_ON),
        _row(stage, "SIGSTOP to the lead's agent for 1 s", _kill_agent(LEAD, "STOP"), _GOES_ON),
        _row(stage, "SIGSTOP to the peer's agent for 1 s", _kill_agent(PEER, "STOP"), _GOES_ON),
        _row(stage, "SIGKILL to the peer's shim", _kill("shim", "KILL"), _mended("the loss is told, or mended")),
        _row(stage, "SIGKILL to the peer's task", _kill("task", "KILL"), _mended("the end is told, or mended")),
        _row(stage, "SIGKILL to the console", _ends, _GOES_ON),
    )
)
