"""Reports on their way through probe, agent and console to the JSON lines: they stay the same."""

from __future__ import annotations

import math

import pytest
from tfscale.agent import wire as agent_wire
from tfscale.console.engine.events import FrameArrived
from tfscale.console.export import rows
from tfscale.console.wire import frames
from tfscale.core.cluster.task import Task
from tfscale.core.records.frame import Frame
from tfscale.core.records.probe_status import Collective
from tfscale.core.records.step_batch import Coordinator, ServerTraffic, WorkerFunctions
from tfscale.core.records.task_status import TaskState, TaskStatus
from tfscale.core.records.training import LoggedNumber, Training
from tfscale.core.wire.json_records import frame_from_json, frame_to_json
from tfscale.trainer.probe.process.identity import Identity
from tfscale.trainer.probe.report import wire as probe_wire
from tfscale.trainer.probe.report.progress import Progress
from tfscale.trainer.probe.report.sink import ProbeReport
from tfscale.trainer.probe.steps import remote_workers
from tfscale.trainer.probe.steps.step import Step

UNKNOWN = math.nan
IDENTITY = Identity("/run/report.sock", "chief:0", generation=3, attempt=2)
SAID = Coordinator(
    at=1000.5,
    queued=0,
    waited=2.5,
    waiting_since=None,
    workers=(
        WorkerFunctions("worker:0", 7, 0, 1.5, 0.5, 1000.25, (ServerTraffic("ps:0", 4096, 0),)),
        WorkerFunctions("worker:1", 0, 2, 0.0, 0.0, None, ()),
    ),
)


@pytest.fixture
def heard() -> Frame:
    steps = [Step(index, 1000.0 + index, 0.125, 0.25, 0.5, 1.0, UNKNOWN) for index in range(2)]
    measured = remote_workers.Measured("worker:1", steps, [UNKNOWN, 0.75], lost=4)
    message = probe_wire.serialised(IDENTITY, ProbeReport(Collective(0, 0, None), workers=[measured], coordinator=SAID))
    report, steps = agent_wire.read_report(message)
    frame = Frame(sequence=0, at=1001.0, status=TaskStatus(TaskState.RUNNING), coordinator=report.coordinator)
    return frames.frame(agent_wire.encode_frame(frame, steps).message)


def test_a_coordinator_arrives_as_it_was_said(heard: Frame) -> None:
    assert heard.coordinator == SAID
    task, read = frame_from_json(frame_to_json("chief:0", heard))
    assert (task, read.coordinator) == ("chief:0", SAID)


def test_what_a_program_logs_comes_to_the_lines_of_the_console() -> None:
    progress = Progress()
    progress.epoch_begun(2)
    progress.batch_ended(0, {"loss": 0.5, "accuracy": 0.75, "grad_norm": 1.25}, None)
    progress.epoch_ended(1, {"val_loss": math.inf})
    message = probe_wire.serialised(IDENTITY, ProbeReport(Collective(0, 0), training=progress.read()))
    report, _ = agent_wire.read_report(message)
    sent = Frame(sequence=0, at=1001.0, status=TaskStatus(TaskState.RUNNING), training=report.training)
    frame = frames.frame(agent_wire.encode_frame(sent, ()).message)
    logs = (LoggedNumber("val_loss", None, 1), LoggedNumber("accuracy", 0.75))
    assert frame.training == Training(epoch=2, loss=0.5, finite=True, grad_norm=1.25, logs=logs, epoch_step=1)
    event = FrameArrived(1001.0, Task.parse("chief:0"), frame)
    assert rows.frame_line(event)["training"]["grad_norm"] == rows.frame_row(event)["training_grad_norm"] == 1.25
    assert frame_from_json(rows.frame_line(event))[1].training == frame.training


def test_a_chief_reports_its_workers_steps(heard: Frame) -> None:
    (batch,) = heard.steps
    assert (batch.reporter, batch.subject, batch.generation, batch.attempt) == ("chief:0", "worker:1", 3, 2)
    assert (list(batch.sequence), list(batch.compute), batch.lost) == ([0, 1], [1.0, 1.0], 4)
    assert list(batch.reduce) == [] and list(batch.global_step) == []
    assert math.isnan(batch.pull[0]) and batch.pull[1] == 0.75
    (written,) = frame_to_json("chief:0", heard)["steps"]
    assert (written["pull"], written["reduce"]) == ([None, 0.75], [])
