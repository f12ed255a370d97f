"""One snapshot for scripts."""

from __future__ import annotations

import json
from dataclasses import replace

import fakes
from tfscale.console.analysis.condition.cluster_condition import ClusterCondition, Condition
from tfscale.console.analysis.stragglers.straggler_rule import ShortHistory, Suspect
from tfscale.console.engine.events import (
    FrameArrived,
)
from tfscale.console.engine.stop_condition import is_explained
from tfscale.console.export.snapshot_once import snapshot_line, verdict
from tfscale.core.records.task_status import TaskState
from tfscale.core.records.training import LoggedNumber, Training

SPEC = fakes.spec(2)
FIRST, SECOND = fakes.worker(0), fakes.worker(1)
ARRIVED = FrameArrived(fakes.NOW, FIRST, fakes.frame(FIRST))


def test_health_is_all_up_or_ended_well_and_no_grave_diagnosis() -> None:
    healthy = fakes.folded(SPEC, *fakes.healthy_events(SPEC), findings=fakes.healthy_findings(SPEC)).snapshot(fakes.NOW)
    assert verdict(healthy)
    assert verdict(fakes.folded(SPEC, *fakes.healthy_events(SPEC), *fakes.ended_events(SPEC, 0)).snapshot(fakes.NOW))
    assert False is verdict(
        fakes.folded(SPEC, *fakes.healthy_events(SPEC), *fakes.ended_events(SPEC, 1)).snapshot(fakes.NOW)
    )
    assert False is verdict(fakes.folded(SPEC, *fakes.cut_events(SPEC)).snapshot(fakes.NOW))
    slow = fakes.folded(SPEC, *fakes.healthy_events(SPEC), findings=fakes.straggler_findings(SPEC)).snapshot(fakes.NOW)
    assert False is verdict(slow)
    line = json.loads(json.dumps(snapshot_line(slow), allow_nan=False))
    assert (line["healthy"], line["diagnoses"][0]["kind"], len(line["tasks"])) == (False, "straggler", 2)
    assert line["tasks"][1]["summary"]["ratio"] == 2.13


def test_where_nothing_can_be_said_yet_it_is_neither_healthy_nor_not() -> None:
    nothing = fakes.folded(SPEC).snapshot(fakes.NOW)
    assert verdict(nothing) is None and snapshot_line(nothing)["healthy"] is None
    waits = replace(fakes.healthy_findings(SPEC), condition=ClusterCondition(Condition.STARTING))
    events = fakes.healthy_events(SPEC)
    assert verdict(fakes.folded(SPEC, *events, findings=waits).snapshot(fakes.NOW)) is None
    starts = FrameArrived(fakes.NOW, SECOND, fakes.frame(SECOND, of=fakes.status(TaskState.STARTING)))
    assert verdict(fakes.folded(SPEC, *events, starts).snapshot(fakes.NOW)) is None
    assert verdict(fakes.folded(SPEC, *events, starts, *fakes.cut_events(SPEC)).snapshot(fakes.NOW)) is False


def test_where_too_little_is_known_to_name_a_straggler_nothing_is_wrong() -> None:
    short = replace(fakes.healthy_findings(SPEC), short_history=ShortHistory(3.0, None))
    assert verdict(fakes.folded(SPEC, *fakes.healthy_events(SPEC), findings=short).snapshot(fakes.NOW))


def test_who_looks_slow_is_told_and_is_no_trouble() -> None:
    findings = replace(fakes.healthy_findings(SPEC), suspect=Suspect("worker:1", fakes.NOW - 4))
    snapshot = fakes.folded(SPEC, *fakes.healthy_events(SPEC), findings=findings).snapshot(fakes.NOW)
    line = snapshot_line(snapshot)
    assert line["suspect"] == "worker:1 looks slow, 4 s; not yet beyond noise"
    assert (line["healthy"], line["diagnoses"]) == (True, [])


def test_it_waits_for_the_reason_of_a_failure() -> None:
    ended = fakes.folded(SPEC, *fakes.healthy_events(SPEC), *fakes.ended_events(SPEC, 1)).snapshot(fakes.NOW)
    assert not is_explained(ended)
    assert is_explained(fakes.folded(SPEC, *fakes.healthy_events(SPEC)).snapshot(fakes.NOW))
    assert is_explained(
        fakes.folded(SPEC, *fakes.healthy_events(SPEC), *fakes.ended_events(SPEC, 0)).snapshot(fakes.NOW)
    )


def test_it_has_the_training_the_host_and_the_gpus_of_each_tasks_newest_frame() -> None:
    training = Training(loss=0.5, logs=(LoggedNumber("val_loss", 0.75, 2),))
    frame = replace(fakes.frame(FIRST, at=fakes.NOW - 1), training=training)
    gpus = [event for event in fakes.gpu_events(SPEC) if event.task != FIRST]
    snapshot = fakes.folded(SPEC, *gpus, FrameArrived(fakes.NOW, FIRST, frame)).snapshot(fakes.NOW)
    first, second = json.loads(json.dumps(snapshot_line(snapshot), allow_nan=False))["tasks"]
    assert (first["frame_time"], first["training"]["loss"]) == (fakes.NOW - 1, 0.5)
    assert first["training"]["logs"] == [{"name": "val_loss", "value": 0.75, "epoch": 2}]
    assert (first["host"], first["host_sample"]["cpu"], first["gpus"]) == ("10.0.0.2", 0.61, [])
    assert second["gpus"][0]["temperature"] > 0 and second["training"] is None


def test_it_has_the_notes_of_the_probe() -> None:
    probe = replace(fakes.frame(FIRST).probe, warnings=("a name was completed",))
    noted = FrameArrived(fakes.NOW, FIRST, replace(fakes.frame(FIRST), probe=probe))
    snapshot = fakes.folded(SPEC, *fakes.healthy_events(SPEC), noted).snapshot(fakes.NOW)
    assert [task["notes"] for task in snapshot_line(snapshot)["tasks"]] == [["a name was completed"], []]


def test_it_has_the_techniques_that_the_probe_counted() -> None:
    probe = replace(fakes.frame(FIRST).probe, micro_batches=4, collective="RING")
    arrived = FrameArrived(fakes.NOW, FIRST, replace(fakes.frame(FIRST), probe=probe))
    snapshot = fakes.folded(SPEC, *fakes.healthy_events(SPEC), arrived).snapshot(fakes.NOW)
    said = [task["techniques"] for task in snapshot_line(snapshot)["tasks"]]
    assert said == [["gradient accumulation: 1 all-reduce for 4 micro-batches"], []]
