"""A console that was there from the start, and one that comes late: what each says of one run at one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile

from kept_agents import KeptAgent, KeptChannels
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import AgentDescribed, Event, FrameArrived, LinkChanged, LinkState, SecondPassed
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.state_factory import states
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Task

HostClock = Callable[[float], float]
"""Seconds by which the clock of a host is ahead, by the time on a right one."""


def _right(_: float) -> float:
    return 0.0


def _newest(known: Sequence[tuple[float, float]], at: float) -> float:
    return [by for when, by in known if when <= at][-1]


def set_clocks(events: Sequence[Event]) -> dict[Task, HostClock]:
    """Return the clocks of a recorded run, as far as these were hours ahead or behind."""
    ahead: dict[Task, list[tuple[float, float]]] = {}
    for event in events:
        if isinstance(event, FrameArrived):
            hours = round((event.frame.at - event.at) / 3600)
            ahead.setdefault(event.task, []).append((event.at, 3600.0 * hours))
    return {task: partial(_newest, known) for task, known in ahead.items() if any(by for _, by in known)}


class Late:
    """Listener of a late console; `snapshots` are all that it took, the first of the past."""

    def __init__(self, engine: Engine, until: float) -> None:
        self.engine, self.until = engine, until
        self.snapshots: list[Snapshot] = []
        self.events: list[Event] = []

    def event_folded(self, event: Event) -> None:
        self.events.append(event)

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)
        if snapshot.at >= self.until:
            self.engine.stop()


def early_snapshots(spec: ClusterSpec, events: Sequence[Event]) -> Iterator[Snapshot]:
    """Yield the snapshots of a console that was there, one a second."""
    state = states(spec)()
    for event in events:
        state.fold(event)
        if isinstance(event, SecondPassed):
            yield state.snapshot(event.at)


def early(spec: ClusterSpec, events: Sequence[Event], at: float) -> Snapshot:
    """Return the last snapshot of a console that was there, up to `at`."""
    *_, last = takewhile(lambda snapshot: snapshot.at <= at, early_snapshots(spec, events))
    return last


def agents_at(
    events: Sequence[Event], at: float, clocks: Mapping[Task, HostClock] | None = None, minutes: int = 10
) -> dict[Task, KeptAgent]:
    """Return the agents as they were at `at`, with all that they keep until then; without those out of reach.

    `clocks` are those that are wrong.
    """
    agents: dict[Task, KeptAgent] = {}
    links: dict[Task, LinkState] = {}
    for event in events:
        match event:
            case AgentDescribed(when, task, description) if when <= at and task not in agents:
                agents[task] = KeptAgent(description, minutes)
            case LinkChanged(when, task, state) if when <= at:
                links[task] = state
            case FrameArrived(when, task, frame, message):
                ahead = (clocks or {}).get(task, _right)(when)
                if frame.at - ahead <= at:
                    agents[task].keep(frame, message, ahead)
    return {task: agent for task, agent in agents.items() if links.get(task) is LinkState.UP}


async def late(
    spec: ClusterSpec, agents: Mapping[Task, KeptAgent], at: float, clocks: Mapping[Task, HostClock] | None = None
) -> Late:
    """Return what a console took that comes at `at`, until it has caught up.

    Where agents are out of reach, it goes on for a second after it knows that.
    """
    is_whole = set(agents) == set(spec.agents)
    ahead = {task: clock(at) for task, clock in (clocks or {}).items()}
    engine = Engine(KeptChannels(spec, agents, at, ahead).source(), states(spec))
    listener = Late(engine, float(int(at) + (not is_whole)))
    await engine.run(listener)
    return listener


def findings(snapshot: Snapshot) -> dict[tuple[str, str], float]:
    """Return the open findings, each with its onset."""
    return {(each.kind, each.subject): each.begin for each in snapshot.findings.diagnoses if each.end is None}
