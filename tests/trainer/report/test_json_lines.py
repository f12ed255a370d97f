"""Reports as JSON lines: the records that an agent would have sent."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tfscale.agent import wire as agent_wire
from tfscale.core.records.frame import Frame
from tfscale.core.records.probe_status import Activity, ActivityKind, Collective, ProbeState
from tfscale.core.records.training import Training
from tfscale.core.wire.json_records import frame_from_json
from tfscale.trainer.probe.process.identity import Identity
from tfscale.trainer.probe.report import wire
from tfscale.trainer.probe.report.json_lines import Lines
from tfscale.trainer.probe.report.sink import ProbeReport
from tfscale.trainer.probe.report.status import Status
from tfscale.trainer.probe.rows.spans import Distribution
from tfscale.trainer.probe.steps.step import Step

STATUS = Status(
    measuring=True, distribution=Distribution("MirroredStrategy", 2, 2, "LOCAL"), checkpoint=1234.5, xla=True
)
REPORT = ProbeReport(
    Collective(7, 6, 1000.5),
    STATUS.record,
    Training(epoch=2, loss=0.5, finite=True),
    [Step(index, 1000.0 + index, 0.125, 0.25, 0.5, 1.0, 2.0) for index in range(2)],
    activities=[Activity(ActivityKind.CHECKPOINT, 1.0, 2.0)],
)


def written(path: Path, *reports: ProbeReport) -> list[Frame]:
    lines = Lines(path, "worker:1", 3, 2)
    for report in reports:
        lines.send(report)
    lines.close(0.0)
    header, *frames = map(json.loads, path.read_text().splitlines())
    assert (header["type"], header["tasks"]) == ("header", ["worker:1"])
    return [frame_from_json(frame)[1] for frame in frames]


def test_the_lines_hold_the_records_that_the_socket_carries(tmp_path: Path) -> None:
    (frame,) = written(tmp_path / "lines.jsonl", REPORT)
    message = wire.serialised(Identity("", "worker:1", 3, 2), REPORT)
    heard, _ = agent_wire.read_report(message)
    assert frame.probe == heard.probe == REPORT.status
    assert frame.probe is not None and (frame.probe.state, frame.probe.checkpoint) == (ProbeState.MEASURING, 1234.5)
    assert (frame.collective, frame.training) == (heard.collective, heard.training) == REPORT[:1] + REPORT[2:3]
    assert frame.activities == heard.activities == tuple(REPORT.activities)
    (batch,) = frame.steps
    assert (batch.reporter, batch.generation, batch.attempt, list(batch.sequence)) == ("worker:1", 3, 2, [0, 1])


def test_what_has_not_changed_is_written_again(tmp_path: Path) -> None:
    first, second = written(tmp_path / "lines.jsonl", REPORT, ProbeReport(Collective(8, 7)))
    assert (first.sequence, second.sequence) == (0, 1)
    assert (second.probe, second.training) == (first.probe, first.training)


def test_a_probe_that_gave_up_says_why() -> None:
    record = replace(STATUS, disabled="it failed").record
    assert (record.state, record.message) == (ProbeState.DISABLED, "it failed")
