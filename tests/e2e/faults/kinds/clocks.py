"""Clocks that are set while tasks run, and while they are restarted."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from signal import Signals

from faults import orders
from faults.fault import RUNS, Expectation, Fault, Setup, Unexpected
from faults.trial import Trial

W0 = "worker:0"
_LIBRARY = Path(__file__).parents[2] / "incidents" / "clock.c"
_COMPILER = os.environ.get("CC", "cc")


def _make_clock(trial: Trial) -> None:
    (trial.folder / "clock").write_bytes(bytes(8))
    subprocess.run([_COMPILER, "-shared", "-fPIC", "-o", trial.folder / "clock.so", _LIBRARY], check=True)


def _set(trial: Trial, seconds: int) -> None:
    # In place: the programs have mapped the file.
    with (trial.folder / "clock").open("r+b") as clock:
        clock.write(seconds.to_bytes(8, "little", signed=True))


def _then_restart(trial: Trial) -> str:
    _set(trial, -3600)
    answer = orders.order(trial.spec, "Restart", W0)
    if not answer.startswith("DONE"):
        raise Unexpected(f"the restart answered {answer!r}")
    return answer


def _then_next_agent(trial: Trial) -> None:
    _set(trial, -3600)
    trial.signal("agent", W0, Signals.SIGKILL)
    trial.agents[W0].wait(60)
    time.sleep(0.5)
    trial.start_agent(W0)


def _then_end(trial: Trial) -> None:
    _set(trial, -3600)
    trial.order(W0, "exit")


SET = Setup(before=_make_clock, variables={"LD_PRELOAD": "{folder}/clock.so", "CLOCK": "{folder}/clock"})
SAME = Expectation("the task runs on, and the agent answers", {W0: RUNS}, (W0,), most_lost=0)


def _row(name: str, does: str, expected: Expectation, act: Callable[[Trial], str | None]) -> Fault:
    missing = "" if shutil.which(_COMPILER) else "a clock of its own needs a C compiler"
    return Fault(name, f"the clock of agent and task is set {does}", expected, act, SET, missing=lambda: missing)


FAULTS = (
    _row("back", "an hour back", SAME, lambda trial: _set(trial, -3600)),
    _row("ahead", "an hour ahead", SAME, lambda trial: _set(trial, 3600)),
    _row(
        "back, restart",
        "an hour back; a restart is ordered",
        Expectation("it is carried out", {W0: RUNS}, is_new=(W0,), most_lost=10, within=60),
        _then_restart,
    ),
    _row("back, next agent", "an hour back; the agent is killed, and started again", SAME, _then_next_agent),
    _row(
        "back, end", "an hour back; the task exits with 3", Expectation("its end is told", {W0: "^exited 3"}), _then_end
    ),
)
