"""Restarts in a row, and what they leave in the agent: descriptors, memory, threads, zombies, files."""

from __future__ import annotations

import os
import time

import psutil
from tfscale.v1 import agent_pb2

from faults import orders
from faults.fault import RUNS, Expectation, Fault, Setup, Unexpected
from faults.trial import Trial

W0 = "worker:0"
_WARM = 5
"""Restarts before what the agent holds is counted."""
_MOST_GROWTH = 16 << 20
"""Bytes by which an agent may grow: arenas of its threads, and the ten minutes of frames that it keeps."""


def _restarts() -> int:
    return int(os.environ.get("FAULTS_RESTARTS", "20"))


def _held(trial: Trial) -> dict[str, int]:
    agent = psutil.Process(trial.agents[W0].pid)
    children = agent.children(recursive=True)
    return {
        "descriptors": agent.num_fds(),
        "threads": agent.num_threads(),
        "processes": len(children),
        "zombies": sum(child.status() == psutil.STATUS_ZOMBIE for child in children),
        "files": sum(1 for folder in (trial.state, trial.folder / "XDG_RUNTIME_DIR") for _ in folder.rglob("*")),
        "memory": agent.memory_info().rss,
    }


def _in_a_row(trial: Trial) -> str:
    generation = orders.call(trial.spec, W0, "Describe", agent_pb2.DescribeRequest()).generation
    before, began = _held(trial), time.monotonic()
    for number in range(_WARM + _restarts()):
        if number == _WARM:
            time.sleep(0.5)
            before, began = _held(trial), time.monotonic()
        for target in ("STOPPED", "RUNNING"):
            generation += target == "STOPPED"
            answer = orders.apply(trial.spec, W0, target, generation)
            if isinstance(answer, str):
                raise Unexpected(f"restart {number}: {answer}")
    took = (time.monotonic() - began) / _restarts()
    time.sleep(0.5)
    after = _held(trial)
    grown = {name: after[name] - before[name] for name in after}
    told = f"{_restarts()} restarts of {took:.2f} s; " + ", ".join(f"{name} {n:+d}" for name, n in grown.items())
    if grown["memory"] > _MOST_GROWTH or any(grown[name] > 2 for name in grown if name != "memory"):
        raise Unexpected(told)
    return told


FAULTS = (
    Fault(
        "restarts in a row",
        "restarts in a row, each in a new generation",
        Expectation("the agent holds no more than before", {W0: RUNS}),
        _in_a_row,
        Setup(program="sleep"),
    ),
)
