"""Events of simulated runs, recordings of them, and their replay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import fakes
from tfscale.console.analysis.findings import Findings
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import Event, SecondPassed
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.state_factory import states
from tfscale.console.recording.recording_reader import Recording
from tfscale.console.recording.recording_writer import RecordingWriter
from tfscale.console.sources.recorded import Player
from tfscale.console.sources.simulation.simulated import PLAIN, Shape, simulated_spec
from tfscale.console.sources.simulation.simulated_cluster import SimulatedCluster
from tfscale.console.sources.simulation.simulated_faults import Fault
from tfscale.core.cluster.cluster_spec import ClusterSpec


def record(path: Path, events: Sequence[Event], spec: ClusterSpec, every: int = 4) -> Path:
    recorder = RecordingWriter(path, spec, events[0].at)
    for number, event in enumerate(events):
        recorder.write(event)
        if number % every == every - 1:
            recorder.flush()
    recorder.close()
    return path


def simulated(seconds: int, workers: int = 2, *faults: str, shape: Shape = PLAIN) -> list[Event]:
    cluster = SimulatedCluster(
        simulated_spec(workers, shape), tuple(map(Fault.parse, faults)), 10.0, 0, stages=shape.stages
    )
    events: list[Event] = []
    second = fakes.NOW + 1
    for event in cluster.arrivals(fakes.NOW):
        while event.at > second:
            events.append(SecondPassed(second))
            second += 1
            if second > fakes.NOW + seconds:
                return events
        events.append(event)
    return events


@asynccontextmanager
async def playing(path: Path) -> AsyncIterator[tuple[Player, fakes.Told]]:
    """Run a replay; yield its player and its listener."""
    player, told = Player(Recording(path)), fakes.Told()
    running = asyncio.create_task(Engine(player, states(player.spec)).run(told))
    yield player, told
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def changes(snapshots: list[Snapshot]) -> list[tuple[float, str, str, float | None]]:
    """Return time, subject, sentence and end of each change of a diagnosis."""
    return [
        (snapshot.at, found.subject, found.sentence, found.end) for snapshot in snapshots for found in snapshot.changes
    ]


def told_live(events: list[Event]) -> list[tuple[float, str, str, float | None]]:
    """Return the changes that a console would have reported while these events of three workers came."""
    state = states(simulated_spec(3))()
    snapshots = []
    for event in events:
        state.fold(event)
        if isinstance(event, SecondPassed):
            snapshots.append(state.snapshot(event.at))
    return changes(snapshots)


def findings_by_second(events: Sequence[Event], workers: int) -> list[tuple[float, Findings]]:
    """Return what a console that sees these events finds, with the time of each evaluation."""
    state, found = states(simulated_spec(workers))(), []
    for event in events:
        state.fold(event)
        if isinstance(event, SecondPassed):
            found.append((event.at, state.snapshot(event.at).findings))
    return found
