"""Lines and rows have the documented fields."""

from __future__ import annotations

import json
from dataclasses import replace

import fakes
import pytest
from tfscale.console.analysis.stragglers.straggler_rule import Suspect
from tfscale.console.engine.events import (
    AgentDescribed,
    CommandProgressed,
    FrameArrived,
    LinkChanged,
    LinkState,
    PolicyTold,
    SecondPassed,
)
from tfscale.console.export import rows
from tfscale.core.records.task_status import Stage

SPEC = fakes.spec(2)
FIRST, SECOND = fakes.worker(0), fakes.worker(1)
ARRIVED = FrameArrived(fakes.NOW, FIRST, fakes.frame(FIRST))


def test_steps_are_rows_of_documented_columns() -> None:
    first, *_ = rows.step_rows(ARRIVED)
    assert list(first) == [name for name, _ in rows.STEP_COLUMNS]
    assert (first["subject"], first["sequence"], first["compute"]) == ("worker:0", 3, pytest.approx(0.04))
    batch = replace(ARRIVED.frame.steps[0], global_step=(), input=())
    unknown = replace(ARRIVED, frame=replace(ARRIVED.frame, steps=(batch,)))
    assert next(iter(rows.step_rows(unknown)))["input"] is None
    assert [line["type"] for line in rows.step_lines(ARRIVED)] == ["step"] * 3


def test_frames_are_flat_rows_also_where_most_is_unknown() -> None:
    row = rows.frame_row(ARRIVED)
    assert list(row) == [name for name, _ in rows.FRAME_COLUMNS]
    assert (row["status_state"], row["host_task_cpu"], row["host_throttled"]) == ("running", 9.4, None)
    assert json.loads(row["host_interfaces"])[0]["name"] == "eth0"
    bare = replace(ARRIVED, frame=replace(ARRIVED.frame, host=None, probe=None, collective=None))
    assert list(rows.frame_row(bare)) == list(row)


def test_events_are_lines_and_rows() -> None:
    progress = CommandProgressed(fakes.NOW, "restart", Stage.FAILED, (FIRST, SECOND), 2, "why")
    lines = [rows.event_line(LinkChanged(1.0, FIRST, LinkState.DOWN, "cut")), rows.event_line(progress)]
    lines.append(rows.event_line(PolicyTold(2.0, SECOND, "not tried again")))
    lines.append(rows.diagnosis_line(fakes.straggler(), 7.0))
    table = [rows.event_row(line) for line in lines if line]
    assert [(row["type"], row["time"], row["subject"], row["kind"]) for row in table] == [
        ("link", 1.0, "worker:0", "down"),
        ("command", fakes.NOW, "worker:0, worker:1", "failed"),
        ("policy", 2.0, "worker:1", None),
        ("diagnosis", 7.0, "worker:1", "straggler"),
    ]
    assert table[2]["text"] == "not tried again"
    assert all(list(row) == [name for name, _ in rows.EVENT_COLUMNS] for row in table)
    assert rows.event_line(SecondPassed(1.0)) is None and rows.event_line(ARRIVED) is None


def test_every_line_begins_with_its_type_the_schema_and_its_time() -> None:
    agent = rows.AgentLines(SPEC).line(AgentDescribed(1.0, FIRST, fakes.description(FIRST)))
    lines = [rows.header(SPEC, 1.0), agent, rows.task_line(ARRIVED), rows.frame_line(ARRIVED)]
    lines += [rows.suspect_line(None, 1.0), rows.suspect_line(Suspect("worker:1", 1.0), 2.0)]
    lines += [rows.diagnosis_line(fakes.straggler(), 7.0)]
    lines += [
        rows.event_line(event) or {} for event in (PolicyTold(2.0, FIRST, "x"), LinkChanged(1.0, FIRST, LinkState.UP))
    ]
    assert [list(line)[:3] for line in lines] == [["type", "schema", "time"]] * len(lines)
    assert [list(line)[3] for line in lines if "task" in line] == ["task"] * 5


def test_a_diagnosis_has_the_first_thing_to_do_about_it() -> None:
    assert rows.diagnosis_line(fakes.straggler(), 7.0)["advice"].startswith("take a profile to see which ops are slow")
    sentence_has_it = replace(fakes.straggler(), kind="saturation")
    assert rows.diagnosis_line(sentence_has_it, 7.0)["advice"] is None


def test_the_cluster_that_all_agents_name_is_written_once() -> None:
    lines, described = rows.AgentLines(SPEC), replace(fakes.description(FIRST), cluster=SPEC.to_json())
    moved = replace(described, placement='{"generation": 2}')
    told = [lines.line(AgentDescribed(1.0, FIRST, each)) for each in (described, moved, moved)]
    assert [(line["cluster"], line["placement"]) for line in told] == [
        (None, None),
        (None, {"generation": 2}),
        (None, None),
    ]
    other = replace(described, cluster='{"cluster": {}}')
    again = [lines.line(AgentDescribed(1.0, SECOND, each))["cluster"] for each in (other, other, described)]
    assert again == [{"cluster": {}}, None, json.loads(SPEC.to_json())]
