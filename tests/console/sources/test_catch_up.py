"""The past that a late console goes through: judged in the time of the frames, as by one that was there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import fakes
import pytest
from fake_agent import FakeCluster
from kept_agents import KeptAgent, KeptChannels
from late_console import agents_at, early, findings, late
from simulated_runs import simulated
from tfscale.agent.telemetry import feed
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import Event, FrameArrived, LinkChanged, LinkState, SecondPassed
from tfscale.console.engine.state_factory import states
from tfscale.console.export.snapshot_once import SnapshotOnce, verdict
from tfscale.console.sources import catch_up
from tfscale.console.sources.agent_stream import Patience
from tfscale.console.sources.live import LiveSource
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.console.transport.channels import Channels
from tfscale.core.cluster.task import Task
from tfscale.core.records.host_sample import Neighbour
from tfscale.core.records.task_status import Exit, TaskState

SPEC = simulated_spec(3)
W0, W1, W2 = SPEC.tasks


def seconds(events: list[Event]) -> list[float]:
    return [event.at for event in events if isinstance(event, SecondPassed)]


FAULTS = (
    "worker:1=1.6x@30s",
    "worker:1=1.6x,input@30s",
    "worker:1=thermal@30s",
    "worker:1=nan@40s",
    "worker:1=hang@40s",
    "worker:2=kill@50s",
    "worker:2=stop@45s",
)


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_late_console_says_what_one_says_that_was_there(fault: str) -> None:
    run = simulated(70, 3, fault)
    for cut in (42.4, 48.7, 66.9):
        at = run[0].at + cut
        there, came = early(SPEC, run, at), (await late(SPEC, agents_at(run, at), at)).snapshots[-1]
        assert findings(came) == findings(there), cut
        assert came.findings.headline == there.findings.headline, cut


async def test_each_second_of_the_past_is_judged_once_and_events_are_in_the_order_of_their_times() -> None:
    run = simulated(40, 3)
    at = run[0].at + 38.5
    told = await late(SPEC, agents_at(run, at), at)
    assert {after - before for before, after in pairwise(seconds(told.events))} == {1.0}
    assert seconds(told.events)[-1] == int(at) and len(told.snapshots) == len(seconds(told.events)) > 35
    assert [event.at for event in told.events] == sorted(event.at for event in told.events)
    frames = [(event.task, event.frame.sequence) for event in told.events if isinstance(event, FrameArrived)]
    assert len(frames) == len(set(frames)) > 100


async def test_a_clock_that_is_an_hour_wrong_does_not_tear_the_past_apart() -> None:
    run = simulated(60, 3, "worker:1=1.6x@20s")
    skewed = [
        replace(event, frame=shifted(event.frame, 3600.0), message=None)
        if isinstance(event, FrameArrived) and event.task == W2
        else event
        for event in run
    ]
    at, clocks = run[0].at + 55.5, {W2: lambda _: 3600.0}
    told = await late(SPEC, agents_at(skewed, at, clocks), at, clocks)
    arrived = {event.frame.sequence: event.at for event in told.events if isinstance(event, FrameArrived)}
    assert findings(told.snapshots[-1]).keys() == {("straggler", "worker:1"), ("wrong_clock", "worker:2")}
    for event in run:
        if isinstance(event, FrameArrived) and event.task == W2 and event.frame.sequence in arrived:
            assert arrived[event.frame.sequence] == pytest.approx(event.frame.at, abs=1.0)


@pytest.mark.parametrize("by", [-3.0, 20.0, 3600.0])
async def test_a_clock_that_was_set_in_the_past_is_no_silence_then(by: float) -> None:
    run = simulated(70, 3, "worker:1=1.6x@20s")
    begin = run[0].at
    clocks = {W2: lambda at: by if at > begin + 37.3 else 0.0}
    skewed = [
        replace(event, frame=shifted(event.frame, clocks[W2](event.at)), message=None)
        if isinstance(event, FrameArrived) and event.task == W2
        else event
        for event in run
    ]
    for cut in (46.5, 66.7):
        at = begin + cut
        there, told = early(SPEC, skewed, at), await late(SPEC, agents_at(skewed, at, clocks), at, clocks)
        came = told.snapshots[-1]
        assert findings(came) == findings(there) and ("wrong_clock", "worker:2") in findings(came), cut
        assert findings(came)["wrong_clock", "worker:2"] == pytest.approx(begin + 37.3, abs=1.0)
        assert came.findings.headline == there.findings.headline
        assert [entry.text for entry in came.timeline] == [entry.text for entry in there.timeline]
        assert not [event for event in told.events if isinstance(event, LinkChanged) and event.state is LinkState.DOWN]


def shifted(frame, by):  # type: ignore[no-untyped-def]
    steps = tuple(replace(batch, end=[end + by for end in batch.end]) for batch in frame.steps)
    neighbours = tuple(
        replace(each, heard=each.heard and each.heard + by, reached=each.reached and each.reached + by)
        for each in frame.host.neighbours
    )
    return replace(frame, at=frame.at + by, steps=steps, host=replace(frame.host, neighbours=neighbours))


def held_up(run: list[Event], task: Task, begin: float, end: float) -> Iterator[Event]:
    """Yield the events of a run in which one agent made no frame for a while: those after it follow those before."""
    missed = 0
    for event in run:
        if not isinstance(event, FrameArrived) or event.task != task:
            yield event
        elif begin < event.at < end:
            missed += 1
        else:
            yield replace(event, frame=replace(event.frame, sequence=event.frame.sequence - missed), message=None)


async def test_an_agent_that_was_silent_in_the_past_was_not_heard_then() -> None:
    run = simulated(60, 3)
    begin = run[0].at
    told = await late(SPEC, agents_at(list(held_up(run, W1, begin + 20, begin + 30)), begin + 50.5), begin + 50.5)
    links = [(event.state, event.at - begin) for event in told.events if isinstance(event, LinkChanged)]
    (down,) = [at for state, at in links if state is LinkState.DOWN]
    assert 22 < down < 25
    (back,) = [at for state, at in links if state is LinkState.UP and at > down]
    assert 29 < back < 32


@pytest.mark.parametrize("fault", ["worker:2=stop@140s", "worker:2=hang@140s"])
async def test_of_a_hang_longer_than_the_history_it_is_known_that_there_were_steps(fault: str) -> None:
    run = simulated(300, 3, "worker:1=1.6x@60s", fault)
    at = run[0].at + 290.5
    there, told = early(SPEC, run, at), await late(SPEC, agents_at(run, at, minutes=1), at)
    came = told.snapshots[-1]
    assert findings(came) == findings(there) and findings(came).keys() == {("hang", "worker:2")}
    assert came.findings.headline == there.findings.headline
    assert not [event for event in told.events if isinstance(event, LinkChanged) and event.state is LinkState.DOWN]
    told_there, told_late = ([entry.text for entry in each.timeline] for each in (there, came))
    assert len(told_late) == len(told_there) and "worker:1 has been slow" in told_late[0]
    stuck_there, stuck_late = ([text for text in texts if "stuck" in text] for texts in (told_there, told_late))
    assert [text.partition(" (since")[2] for text in stuck_late] == [
        text.partition(" (since")[2] for text in stuck_there
    ]
    assert len(seconds(told.events)) < 130


async def test_an_agent_that_begins_while_its_task_hangs_knows_that_there_were_steps() -> None:
    run = simulated(170, 3, "worker:2=hang@40s")
    at, begin = run[0].at + 165.5, run[0].at
    agents = agents_at([each for each in run if not (isinstance(each, FrameArrived) and each.at < begin + 60)], at)
    there, came = early(SPEC, run, at), (await late(SPEC, agents, at)).snapshots[-1]
    assert findings(came).keys() == findings(there).keys() == {("hang", "worker:2")}
    assert came.findings.headline == there.findings.headline


async def test_what_happened_an_hour_ago_stands_in_the_events_and_is_not_judged() -> None:
    spec = fakes.spec(2)
    first, second = spec.tasks
    agents = {task: KeptAgent(fakes.description(task)) for task in spec.tasks}
    exited = fakes.status(TaskState.EXITED, attempt=1, exit=Exit(1, None, at=fakes.NOW - 3590))
    for sequence, ago in enumerate(range(3600, 0, -1)):
        runs = fakes.status(attempt=1 if ago > 3585 else 2, reason="restarted by ada")
        status = exited if 3585 < ago < 3590 else runs
        at = fakes.NOW - ago
        frame = fakes.frame(first, sequence, at, status)
        host = replace(
            frame.host, neighbours=(Neighbour("worker:1", at, reached=at - 60 if 1000 < ago < 1100 else at),)
        )
        agents[first].keep(replace(frame, host=host))
        agents[second].keep(fakes.frame(second, sequence, at))
    told = await late(spec, agents, fakes.NOW)
    entries = [(entry.subject, round(fakes.NOW - entry.at), entry.text) for entry in told.snapshots[-1].timeline]
    assert entries == [
        ("worker:0", 3590, "exited 1"),
        ("worker:0", 3585, "running, generation 1, attempt 2 (restarted by ada)"),
        ("worker:0", 1099, "does not hear worker:1's host any more"),
        ("worker:0", 1000, "hears worker:1's host again"),
    ]
    assert findings(told.snapshots[-1]) == {} and len(told.snapshots) <= 600
    assert not any(diagnosis.kind == "crash" for each in told.snapshots for diagnosis in each.findings.diagnoses)


async def test_an_agent_that_sends_many_frames_a_second_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catch_up, "_WAITING", 1)
    monkeypatch.setattr(feed, "PIECE", 1)
    spec = fakes.spec(2)
    agents = {task: KeptAgent(fakes.description(task)) for task in spec.tasks}
    for sequence in range(100):
        for task in spec.tasks:
            agents[task].keep(fakes.frame(task, sequence, fakes.NOW - 10 + 0.1 * sequence))
    told = await late(spec, agents, fakes.NOW)
    frames = [event for event in told.events if isinstance(event, FrameArrived)]
    assert len(frames) > 180 and all(event.at == event.frame.at for event in frames)


async def test_an_agent_that_is_not_there_holds_nobody_up() -> None:
    run = simulated(40, 3)
    at = run[0].at + 35.5
    agents = agents_at(run, at)
    del agents[W1]
    async with asyncio.timeout(60):
        told = await late(SPEC, agents, at)
    assert len(told.snapshots) > 30
    states = {str(view.task): view.link.state for view in told.snapshots[-1].tasks}
    assert states == {"worker:0": LinkState.UP, "worker:1": LinkState.DOWN, "worker:2": LinkState.UP}


async def test_agents_that_send_their_past_in_one_snapshot_are_gone_through_as_well() -> None:
    async with FakeCluster(2, interval=0.1) as cluster:
        for _ in range(40):
            cluster.tick()
            await asyncio.sleep(0.1)
        channels = Channels(cluster.spec, insecure=False)
        once = SnapshotOnce(Engine(LiveSource(channels, Patience()), states(cluster.spec)))
        async with asyncio.timeout(60):
            snapshot = await once.run()
        await channels.close()
    assert snapshot is not None and once.frames >= 40 and not snapshot.is_outdated


@pytest.mark.parametrize("phase", [0.1, 0.4, 0.7])
async def test_once_knows_of_an_end_just_before_it_began(phase: float) -> None:
    async with FakeCluster(2, interval=0.1) as cluster, asyncio.TaskGroup() as group:
        playing = group.create_task(cluster.play())
        await asyncio.sleep(3.0)
        await asyncio.sleep((phase - time.time()) % 1.0)
        cluster.kill(Task.parse("worker:1"))
        cluster.tick()
        channels = Channels(cluster.spec, insecure=False)
        snapshot = await SnapshotOnce(Engine(LiveSource(channels, Patience()), states(cluster.spec))).run()
        await channels.close()
        playing.cancel()
    assert snapshot is not None and verdict(snapshot) is False


async def test_once_waits_until_it_has_caught_up() -> None:
    run = simulated(100, 3)
    at = run[0].at + 95.5
    source = KeptChannels(SPEC, agents_at(run, at), at).source(goes_on=True)
    snapshot = await SnapshotOnce(Engine(source, states(SPEC))).run()
    assert snapshot is not None and snapshot.at > int(at) and snapshot.age < 1


def test_an_outdated_snapshot_says_of_what_moment_it_is() -> None:
    cluster = fakes.spec(2)
    now = fakes.folded(cluster, *fakes.healthy_events(cluster)).snapshot(fakes.NOW)
    assert (now.moment, replace(now, age=2.9).moment) == ("", "")
    assert replace(now, age=75.0).moment.endswith(", 75 s ago: ")
