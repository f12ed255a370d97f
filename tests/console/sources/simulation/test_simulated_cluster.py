"""Events of simulated agents: their form is that of real ones."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from dataclasses import fields
from statistics import median

import fakes
import pytest
from simulated_runs import simulated
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import AgentDescribed, Event, FrameArrived, LinkChanged, LinkState, SecondPassed
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.state_factory import states
from tfscale.console.sources.simulation.simulated import PLAIN, Shape, SimulatedSource, simulated_spec
from tfscale.console.sources.simulation.simulated_cluster import SimulatedCluster
from tfscale.console.sources.simulation.simulated_commands import SimulatedCommands
from tfscale.console.sources.simulation.simulated_faults import Fault
from tfscale.console.transport.channels import CommandError
from tfscale.core.errors import UsageError
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame
from tfscale.core.records.task_status import TaskState


def frames(events: list[Event], task: str) -> list[Frame]:
    return [event.frame for event in events if isinstance(event, FrameArrived) and str(event.task) == task]


def seen(events: list[Event], workers: int, shape: Shape = PLAIN) -> list[Snapshot]:
    """Return what a console shows, second by second."""
    state, snapshots = states(simulated_spec(workers, shape))(), []
    for event in events:
        if isinstance(event, SecondPassed):
            snapshots.append(state.snapshot(event.at))
        else:
            state.fold(event)
    return snapshots


def found(events: list[Event], workers: int, shape: Shape = PLAIN) -> list[Diagnosis]:
    """Return all diagnoses that have begun."""
    return [each for snapshot in seen(events, workers, shape) for each in snapshot.changes if each.end is None]


def test_of_a_healthy_cluster_nothing_is_found() -> None:
    assert found(simulated(40, 4), 4) == []


def test_every_step_of_every_worker_is_told_once_and_adds_up() -> None:
    events = simulated(20, 3)
    for worker in range(3):
        batches = [batch for frame in frames(events, f"worker:{worker}") for batch in frame.steps]
        sequence = [number for batch in batches for number in batch.sequence]
        assert sequence == list(range(len(sequence))) and len(sequence) > 150
        ends = [end for batch in batches for end in batch.end]
        rows = [sum(row) for batch in batches for row in zip(batch.update, batch.host, batch.input, batch.compute,
                                                             batch.reduce, strict=True)]  # fmt: skip
        steps = [after - before for before, after in itertools.pairwise(ends)]
        assert steps == pytest.approx(rows[1:], abs=1e-4)


def test_equal_workers_are_named_by_nobody() -> None:
    assert [diagnosis.subject for diagnosis in found(simulated(60, 8), 8) if diagnosis.kind == "straggler"] == []


def test_a_slow_phase_is_found_and_so_is_its_end() -> None:
    events = simulated(60, 4, "worker:3=60ms,input@10s-30s")
    (straggler,) = (diagnosis for diagnosis in found(events, 4) if diagnosis.kind == "straggler")
    assert (straggler.kind, straggler.subject, straggler.evidence["phase"]) == ("straggler", "worker:3", "input")
    assert straggler.begin == pytest.approx(fakes.NOW + 10, abs=1.5)


def test_a_death_takes_the_others_down_and_all_start_anew() -> None:
    events = simulated(40, 3, "worker:1=kill@10s-20s")
    (crash,) = found(events, 3)
    assert (crash.kind, crash.subject, crash.evidence["signal"]) == ("crash", "worker:1", "SIGKILL")
    states_of = [frame.status.state for frame in frames(events, "worker:0")]
    assert [state for state, _ in itertools.groupby(states_of)] == [
        TaskState.RUNNING,
        TaskState.EXITED,
        TaskState.RUNNING,
    ]
    newest = frames(events, "worker:0")[-1]
    assert newest.status.generation == 2 and newest.steps[0].generation == 2


def test_a_hang_stops_the_steps_and_shows_who_is_not_inside() -> None:
    events = simulated(30, 2, "worker:1=hang@10s")
    healthy, stuck = (frames(events, f"worker:{index}")[-1].collective for index in range(2))
    assert healthy is not None and stuck is not None
    assert (healthy.entered, stuck.entered) == (healthy.left + 1, stuck.left)
    assert not frames(events, "worker:0")[-1].steps


def test_a_cut_connection_comes_back_with_all_that_was_kept() -> None:
    events = simulated(40, 2, "worker:1=cut@10s-20s")
    links = [event.state for event in events if isinstance(event, LinkChanged) and event.task.index == 1]
    assert links == [LinkState.UP, LinkState.DOWN, LinkState.UP]
    sequence = [frame.sequence for frame in frames(events, "worker:1")]
    assert sequence == list(range(1, len(sequence) + 1))
    assert sum(isinstance(event, AgentDescribed) and event.task.index == 1 for event in events) == 2


def test_faults_show_in_raw_counters_and_nowhere_is_a_cause_named() -> None:
    events = simulated(10, 3, "worker:0=thermal", "worker:1=cpu")
    hot, crowded, well = (frames(events, f"worker:{index}")[-1] for index in range(3))
    assert hot.gpus[0].clock_event_reasons and (hot.gpus[0].clock or 0) < (well.gpus[0].clock or 0)
    assert crowded.host is not None and crowded.host.pressure is not None and (crowded.host.pressure.cpu or 0) > 0.5
    assert not well.gpus[0].clock_event_reasons
    named = {field.name for field in fields(Frame)}
    assert not named & {"cause", "diagnosis", "fault"}


@pytest.mark.parametrize(
    ("fault", "shape", "said"),
    [
        ("worker:9=2x", Shape(), "there is no worker:9 among 2 simulated workers"),
        ("ps:0=2x", Shape(), "there is no ps:0 among 2 simulated workers"),
        ("ps:0=uneven", Shape(servers=1), "--fault ps:0=uneven: it needs one of two parameter servers or more: --ps 2"),
        ("worker:0=link", Shape(servers=2), "it needs two workers in step: leave out --ps"),
        ("worker:0=nan", Shape(servers=2), "it needs workers in step: leave out --ps"),
        ("ps:1=thermal", Shape(servers=2), "it needs a worker, which has a GPU"),
        ("chief:0=2x", Shape(servers=2), "the chief makes no step: slow a worker or a server down"),
    ],
)
def test_a_fault_that_nobody_can_have_is_refused(fault: str, shape: Shape, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        SimulatedSource(2, [Fault.parse(fault)], shape)


def test_a_slow_link_is_named_from_its_sender_to_its_receiver_and_makes_all_steps_longer() -> None:
    events = simulated(30, 4, "worker:3=link@10s")
    slow = next(each for each in found(events, 4) if each.kind == "slow_link")
    assert (slow.subject, slow.evidence["receiver"], slow.evidence["manner"]) == ("worker:3", "worker:0", "slow")
    assert slow.begin == pytest.approx(fakes.NOW + 10, abs=2.0)
    before, after = (frames(events, "worker:1")[second].steps[0] for second in (8, 25))
    assert median(after.reduce) > 5 * median(before.reduce)


def test_servers_serve_workers_at_their_own_pace_and_the_one_with_most_variables_is_told() -> None:
    shape = Shape(servers=3)
    events = simulated(40, 3, "ps:1=uneven", "worker:2=1.8x@10s", shape=shape)
    told = found(events, 3, shape)
    assert {(each.kind, each.subject) for each in told} == {("uneven_servers", "ps:1"), ("straggler", "worker:2")}
    newest = frames(events, "chief:0")[-1]
    assert newest.coordinator is not None
    assert {batch.subject for batch in newest.steps} == {"worker:0", "worker:1", "worker:2"}
    for functions in newest.coordinator.workers:
        batches = [batch for frame in frames(events, "chief:0") for batch in frame.steps]
        sequence = [number for batch in batches if batch.subject == functions.worker for number in batch.sequence]
        assert sequence == list(range(functions.finished))
        moved = {each.server: each.pulled for each in functions.traffic}
        assert moved["ps:1"] > 4 * moved["ps:0"] > 0
    assert not any(frame.steps for frame in frames(events, "worker:0"))


def test_a_dead_worker_of_servers_leaves_the_others_at_work() -> None:
    shape = Shape(servers=2)
    newest = seen(simulated(60, 3, "worker:1=kill@10s-20s", shape=shape), 3, shape)[-1]
    assert newest.findings.headline.startswith("healthy: 3 workers at work")
    assert {str(view.task): view.status and view.status.generation for view in newest.tasks} == {
        **dict.fromkeys(("chief:0", "worker:0", "worker:2", "ps:0", "ps:1"), 1),
        "worker:1": 2,
    }


def test_the_stages_of_a_pipeline_have_equal_work_and_the_bubble_of_the_formula() -> None:
    shape = Shape(stages=4)
    newest = seen(simulated(20, 2, shape=shape), 2, shape)[-1]
    for view in newest.tasks:
        assert [*view.stages] == [f"{view.task}/stage:{stage}" for stage in range(4)]
        for stage in view.stages.values():
            assert stage.input is not None and stage.compute is not None
            assert stage.input / (stage.input + stage.compute) == pytest.approx(3 / 11, abs=0.01)


async def test_it_plays_at_the_pace_of_the_clock() -> None:
    source, told = SimulatedSource(16), fakes.Told()
    watching = Engine(source, states(source.spec))
    asyncio.get_running_loop().call_later(2.6, watching.stop)
    await asyncio.wait_for(watching.run(told), 60)
    assert 2 <= len(told.snapshots) <= 3 and told.snapshots[-1].up == 16
    frames_told = [event for event in told.events if isinstance(event, FrameArrived)]
    assert 32 <= len(frames_told) <= 48


async def test_the_log_of_a_task_is_that_of_its_steps_and_ends() -> None:
    cluster = SimulatedCluster(simulated_spec(2), (Fault.parse("worker:1=kill@12s-20s"),), 10.0, 0)
    commands, (first, second) = SimulatedCommands(cluster), simulated_spec(2).tasks
    for event in cluster.arrivals(fakes.NOW):
        if event.at > fakes.NOW + 18:
            break
    told = await anext(commands.follow_log(first, 100))
    assert told[:2] == ("--- tfscale: generation 1, attempt 1: python train.py", "Epoch 1/10, 1000 steps")
    assert [line.partition(" - loss: ")[0] for line in told[2:4]] == ["50/1000", "100/1000"]
    assert told[-2].startswith("UnavailableError") and told[-1] == "--- tfscale: exited 1"
    assert (await anext(commands.follow_log(second, 1))) == ("--- tfscale: was killed by SIGKILL",)
    with pytest.raises(CommandError, match="has ended"):
        await commands.stack(second)


async def test_the_main_thread_stands_where_the_fault_holds_it() -> None:
    faults = tuple(map(Fault.parse, ("worker:1=hang@0s", "worker:2=60ms,input")))
    cluster = SimulatedCluster(simulated_spec(3), faults, 10.0, 0)
    for _ in zip(range(20), cluster.arrivals(time.time()), strict=False):
        pass
    commands = SimulatedCommands(cluster)
    stacks = [(await commands.stack(task)).text.splitlines()[1] for task in simulated_spec(3).tasks]
    assert ["quick_execute" in stacks[0], " in wait" in stacks[1], "_next_internal" in stacks[2]] == [True] * 3
