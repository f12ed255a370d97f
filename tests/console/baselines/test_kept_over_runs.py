"""Consoles one after the other: the second one knows how fast the run of the first was; a replay does not."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import fakes
from phase_simulation import Simulation
from tfscale.console.baselines.baseline_file import NAME, BaselineFile, open_baselines
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import AgentDescribed, Event, FrameArrived, LinkChanged, LinkState, SecondPassed
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.state_factory import resilient_states
from tfscale.console.settings.config import Settings
from tfscale.console.sources.recorded import RecordedSource
from tfscale.console.sources.simulation.step_phases import Slow
from tfscale.console.sources.source_factory import connect, connect_to
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Task
from tfscale.core.records.host_sample import HostSample

ALONE = Task.parse("worker:0")


def cluster() -> ClusterSpec:
    return fakes.spec(1)


def run_of(begin: float, seconds: float, times: float = 1.0) -> Iterator[Event]:
    """Yield what a lone worker's agent sends, `times` as slow in compute as usual."""
    yield LinkChanged(begin, ALONE, LinkState.UP)
    yield AgentDescribed(begin, ALONE, fakes.description(ALONE))
    for _, frame in Simulation(1, 10.0, seconds, slow=(Slow(0, times),)).frames():
        at = begin + frame.at
        steps = tuple(replace(each, end=array("d", (begin + end for end in each.end))) for each in frame.steps)
        status, host = replace(frame.status, started=begin), HostSample(0.5, 8, 1.0, 1, 2, 0)
        yield FrameArrived(at, ALONE, replace(frame, at=at, status=status, host=host, steps=steps))
        yield SecondPassed(at)


class Kept:
    """Listener that keeps the headline of each second."""

    def __init__(self) -> None:
        self.headlines: list[str] = []

    def event_folded(self, event: Event) -> None: ...

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        self.headlines.append(snapshot.findings.headline)


def watched(events: Iterator[Event], baselines: BaselineFile | None) -> list[str]:
    kept, problems = Kept(), list[str]()
    new_state = resilient_states(cluster(), problems.append, baselines)
    asyncio.run(Engine(RecordedSource(cluster(), events), new_state).run(kept))
    if baselines is not None:
        baselines.close()
    assert problems == []
    return kept.headlines


def test_the_next_console_knows_how_fast_the_last_run_was(tmp_path: Path) -> None:
    path = tmp_path / NAME
    assert "healthy: worker:0 trains" in watched(run_of(1e9, 130.0), BaselineFile(path))[-1]
    slower = watched(run_of(1e9 + 90_000, 80.0, 1.5), BaselineFile(path))[-1]
    assert "worker:0's compute has taken 111 ms a step" in slower
    assert "in the run of 2001-09-09 01:46:40" in slower
    assert watched(run_of(1e9 + 90_000, 80.0), BaselineFile(path))[-1].startswith("healthy")


def test_a_replay_neither_reads_nor_writes(tmp_path: Path) -> None:
    path = tmp_path / NAME
    watched(run_of(1e9, 130.0), BaselineFile(path))
    before = path.read_bytes()
    told = watched(run_of(1e9 + 90_000, 130.0, 1.5), None)
    assert told[-1].startswith("healthy")
    assert path.read_bytes() == before


def test_only_live_clusters_have_baselines(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    assert connect(Settings(simulate=2), {}, environment).baselines is None
    assert connect_to(cluster(), Settings(insecure=True), environment).baselines is not None
    assert open_baselines(environment) is not None
    assert list(tmp_path.iterdir()) == []
