"""Records to JSON and back."""

import json
import math
from array import array

import pytest
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import HostSample, Interface, Pressure
from tfscale.core.records.probe_status import Activity, ActivityKind, Collective, ProbeState, ProbeStatus
from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.core.records.step_batch import StepBatch
from tfscale.core.records.task_status import Exit, TaskState, TaskStatus
from tfscale.core.records.training import Training
from tfscale.core.wire.json_records import SchemaError, frame_from_json, frame_to_json

FRAME = Frame(
    sequence=7,
    at=1000.5,
    status=TaskStatus(TaskState.EXITED, 2, 1, exit=Exit(None, 9, 1000.25)),
    probe=ProbeStatus(ProbeState.MEASURING, strategy="MirroredStrategy", warnings=("one",)),
    collective=Collective(5, 4),
    host=HostSample(0.5, 2, None, 1, 2, 0, Pressure(0.1, None, None), (Interface("eth0", 1.0, 2.0, None),)),
    training=Training(epoch=1, loss=0.5, finite=True),
    activities=(Activity(ActivityKind.COMPILE, 999.0),),
    steps=(StepBatch(2, 1, "worker:1", "worker:1", [3, 4], [1.0, 2.0], compute=array("f", [math.nan, 0.5])),),
)


def test_a_frame_comes_back() -> None:
    document = json.loads(json.dumps(frame_to_json("worker:1", FRAME), allow_nan=False))
    task, back = frame_from_json(document)
    assert task == "worker:1"
    assert (back.training, back.activities) == (FRAME.training, FRAME.activities)
    assert (back.status, back.probe, back.host, back.collective) == (
        FRAME.status,
        FRAME.probe,
        FRAME.host,
        FRAME.collective,
    )
    (batch,) = back.steps
    assert list(batch.sequence) == [3, 4] and batch.compute[1] == 0.5
    assert math.isnan(batch.compute[0])


def test_unknown_is_null() -> None:
    document = frame_to_json("worker:1", FRAME)
    assert document["steps"][0]["compute"] == [None, 0.5]
    assert document["host"]["load"] is None and document["status"]["exit"]["code"] is None
    assert document["steps"][0]["global_step"] == []


def test_a_newer_schema_is_refused_and_says_what_to_do() -> None:
    document = {**frame_to_json("worker:1", FRAME), "schema": SCHEMA_VERSION + 1}
    with pytest.raises(SchemaError, match="update it"):
        frame_from_json(document)


def test_a_frame_that_cannot_be_read_is_refused() -> None:
    document = frame_to_json("worker:1", FRAME)
    document["steps"][0]["end"] = [1.0]
    with pytest.raises(SchemaError, match="1 in column end"):
        frame_from_json(document)


@pytest.mark.parametrize(
    ("column", "value"),
    [("sequence", -1), ("sequence", 1 << 64), ("sequence", 1 << 63), ("global_step", 1 << 63), ("end", 10**400)],
)
def test_a_number_that_no_column_can_hold_is_refused(column: str, value: int) -> None:
    document = frame_to_json("worker:1", FRAME)
    document["steps"][0][column] = [3, value]
    with pytest.raises(SchemaError, match="not a"):
        frame_from_json(document)


def test_another_kind_of_line_is_refused() -> None:
    with pytest.raises(SchemaError, match="not a frame"):
        frame_from_json({"type": "header"})
