"""The screens before a simulated cluster that has run for a while, with what was diagnosed in it."""

from __future__ import annotations

from functools import cache
from typing import Any

import fakes
from simulated_runs import simulated
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import SecondPassed
from tfscale.console.engine.state import ClusterState
from tfscale.console.engine.state_factory import states
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.console.tui.app import ConsoleApp

FAULTS: dict[str, tuple[int, tuple[str, ...]]] = {
    "healthy": (40, ()),
    "slow": (40, ("worker:1=1.4x@20s",)),
    "input": (40, ("worker:1=60ms,input@20s",)),
    "thermal": (40, ("worker:1=thermal@20s",)),
    "cpu": (40, ("worker:1=cpu@20s",)),
    "kill": (40, ("worker:1=kill@20s-25s",)),
    "hang": (100, ("worker:1=hang@20s",)),
    "nan": (40, ("worker:1=nan@20s",)),
    "cut": (40, ("worker:1=cut@30s",)),
}
"""Faults, and the seconds in which they hold."""
OF_THE_FIRST_SCREEN = {
    "several": (40, ("worker:1=30ms,input@20s", "worker:4=thermal@20s", "worker:6=32ms@20s")),
    "still": (40, ("worker:1=hang@20s",)),
}
"""Faults that the first screen alone shows in its own way."""
_CASES = FAULTS | OF_THE_FIRST_SCREEN


@cache
def state_of(case: str, workers: int = 4) -> ClusterState:
    """Return the state of a console at the end of the simulated time."""
    seconds, faults = _CASES[case]
    state = states(simulated_spec(workers))()
    for event in simulated(seconds, workers, *faults):
        state.fold(event)
        if isinstance(event, SecondPassed):
            state.snapshot(event.at)
    return state


def build(case: str, workers: int = 4, **options: Any) -> ConsoleApp:
    source = fakes.ScriptedSource(simulated_spec(workers))
    source.seconds = _CASES[case][0]
    state = state_of(case, workers)
    return ConsoleApp(Engine(source, lambda: state), fakes.FakeCommands(), **options)
