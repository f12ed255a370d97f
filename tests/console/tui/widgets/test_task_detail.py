"""Lines of a task's page."""

from __future__ import annotations

import re
from dataclasses import replace

import fakes
import pytest
from simulated_runs import simulated
from tfscale.console.analysis.findings import SubjectSummary
from tfscale.console.analysis.steps.staleness import Staleness
from tfscale.console.engine.events import FrameArrived
from tfscale.console.engine.state_factory import states
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.panes.cluster_metrics import figures_of
from tfscale.console.tui.widgets.panes.task_detail import Detail, stage_facts
from tfscale.console.tui.widgets.table.task_columns import Scene, column_named
from tfscale.core.records.host_sample import Disk
from tfscale.core.records.task_status import Exit, TaskState
from tfscale.core.records.training import LoggedNumber, Training

SPEC = fakes.spec(2)
FIRST = fakes.worker(0)


@pytest.mark.parametrize(
    ("summary", "said"),
    [
        (SubjectSummary(compute=0.08, input=0.02), "compute 80.0 ms   waits for a neighbour 20.0 ms   bubble 20%"),
        (SubjectSummary(compute=0.08, input=0.0), "compute 80.0 ms   waits for a neighbour 0 us   bubble 0%"),
        (SubjectSummary(), "compute –   waits for a neighbour –"),
    ],
)
def test_a_stage_tells_its_bubble(summary: SubjectSummary, said: str) -> None:
    assert stage_facts(summary) == said


def lines(snapshot: object) -> list[str]:
    detail = Detail(FIRST)
    detail.set_reactive(Detail.snapshot, snapshot)
    detail.set_reactive(Detail.appearance, Appearance())
    return [line.plain for line in detail.lines(120)]


def test_a_task_that_has_ended_tells_its_newest_step() -> None:
    state = states(simulated_spec(2))()
    for event in simulated(30, 2, "worker:1=kill@20s"):
        state.fold(event)
    step = next(line for line in lines(state.snapshot(fakes.NOW + 30)) if line.startswith("step "))
    assert re.fullmatch(r"step +the newest is 1\d\d; its parts are not known", step), step


def test_what_keras_logs_is_told_with_the_epoch_of_a_validation() -> None:
    logs = (LoggedNumber("val_loss", None, 1), LoggedNumber("accuracy", 0.75), LoggedNumber("val_accuracy", 0.5, 1))
    frame = replace(fakes.frame(FIRST), training=Training(logs=logs, logs_left_out=3))
    event = FrameArrived(fakes.NOW, FIRST, frame)
    found = lines(fakes.folded(SPEC, *fakes.healthy_events(SPEC), event).snapshot(fakes.NOW))
    told = "accuracy 0.75   after epoch 2: val_loss not a number   val_accuracy 0.5   3 more are logged"
    assert f"logs       {told}" in found


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ({}, []),
        ({"epoch_step": 120}, ["progress   epoch 3, step 120"]),
        ({"epochs": 10}, ["progress   epoch 3 of 10"]),
    ],
)
def test_progress_has_a_line_where_it_is_more_than_the_epoch(known: dict[str, int], told: list[str]) -> None:
    frame = replace(fakes.frame(FIRST), training=Training(epoch=2, **known))
    events = *fakes.healthy_events(SPEC), FrameArrived(fakes.NOW, FIRST, frame)
    shown = lines(fakes.folded(SPEC, *events).snapshot(fakes.NOW))
    assert sum("epoch 3" in line for line in shown if line.startswith("training")) == 1
    assert [line for line in shown if line.startswith("progress")] == told


@pytest.mark.parametrize(
    ("disk", "told"),
    [
        (Disk(612_000_000_000, 1_024_000_000_000, 48e6, 0.0),
         ["disk       read 48.0 MB/s   written 0 B/s   612 GB free of 1.02 TB"]),
        (Disk(0, 1_024_000_000_000), ["disk       0 B free of 1.02 TB"]),
        (None, []),
    ],
)  # fmt: skip
def test_a_task_tells_what_its_disk_moves_where_that_is_known(disk: Disk | None, told: list[str]) -> None:
    frame = fakes.frame(FIRST)
    assert frame.host is not None
    frame = replace(frame, host=replace(frame.host, disk=disk))
    events = *fakes.healthy_events(SPEC), FrameArrived(fakes.NOW, FIRST, frame)
    shown = lines(fakes.folded(SPEC, *events).snapshot(fakes.NOW))
    assert [line for line in shown if line.startswith("disk")] == told


@pytest.mark.parametrize(("compiled", "is_told"), [(True, False), (False, True), (None, False)])
def test_a_task_whose_stamps_are_no_ops_of_the_compiled_library_says_so(compiled: bool | None, is_told: bool) -> None:
    frame = fakes.frame(FIRST)
    assert frame.probe is not None
    frame = replace(frame, probe=replace(frame.probe, compiled_stamps=compiled))
    events = *fakes.healthy_events(SPEC), FrameArrived(fakes.NOW, FIRST, frame)
    shown = lines(fakes.folded(SPEC, *events).snapshot(fakes.NOW))
    told = "stamps     TensorFlow's own ops: the compiled library could not be built or loaded"
    assert [line for line in shown if line.startswith("stamps")] == [told] * is_told


@pytest.mark.parametrize(("after", "is_told"), [(8.4, True), (-1.0, False), (None, False)])
def test_a_failed_task_tells_when_it_is_started_again(after: float | None, is_told: bool) -> None:
    at = None if after is None else fakes.NOW + after
    status = fakes.status(TaskState.EXITED, exit=Exit(None, 9, fakes.NOW - 4), restart_at=at)
    events = *fakes.healthy_events(SPEC), FrameArrived(fakes.NOW, FIRST, fakes.frame(FIRST, 2, of=status))
    assert ("restarts in 8 s" in lines(fakes.folded(SPEC, *events).snapshot(fakes.NOW))[0]) is is_told


def test_a_task_tells_the_techniques_that_make_its_steps_other_than_plain_ones() -> None:
    probe = fakes.frame(FIRST).probe
    assert probe is not None
    frame = replace(fakes.frame(FIRST), probe=replace(probe, local_steps=8, wire_type="bfloat16"))
    events = *fakes.healthy_events(SPEC), FrameArrived(fakes.NOW, FIRST, frame)
    told = [line for line in lines(fakes.folded(SPEC, *events).snapshot(fakes.NOW)) if line.startswith("technique")]
    assert told == [
        "technique  local SGD: 1 all-reduce in 8 steps, counted here as one step",
        "technique  gradients in bfloat16 on the wire",
    ]
    plain = lines(fakes.folded(SPEC, *fakes.healthy_events(SPEC)).snapshot(fakes.NOW))
    assert not any(line.startswith("technique") for line in plain)


def test_the_time_from_one_all_reduce_to_the_next_is_that_of_all_local_steps() -> None:
    findings = replace(fakes.healthy_findings(SPEC), local_steps=8)
    snapshot = fakes.folded(SPEC, *fakes.healthy_events(SPEC), findings=findings).snapshot(fakes.NOW)
    assert [figure.name for figure in figures_of(snapshot)][:3] == ["steps/s", "examples/s", "for 8 steps"]


def test_an_asynchronous_worker_tells_how_old_its_updates_are() -> None:
    findings = fakes.healthy_findings(SPEC)
    summary = SubjectSummary(step_time=0.1, compute=0.1, staleness=Staleness(1.75, {1: 1, 2: 3}))
    findings = replace(findings, subjects={**findings.subjects, "worker:0": summary})
    snapshot = fakes.folded(SPEC, *fakes.healthy_events(SPEC), findings=findings).snapshot(fakes.NOW)
    assert "staleness  mean 1.75   updates by others, pull to push: 1:1 2:3" in lines(snapshot)
    column, scene = column_named("stale"), Scene(fakes.NOW, Appearance().glyphs)
    assert [column.cell(view, scene)[0] for view in snapshot.tasks] == ["1.75", "–"]
