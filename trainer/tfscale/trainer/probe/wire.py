"""The probe's reports as protobuf messages; the only module of the probe, beside the stream, that knows them."""

from __future__ import annotations

from typing import Any

import numpy as np
from tfscale.trainer.probe.activities import Activity
from tfscale.trainer.probe.columns import report_batches
from tfscale.trainer.probe.identity import Identity
from tfscale.trainer.probe.report import Report
from tfscale.trainer.probe.status import Status
from tfscale.trainer.probe.steps import PHASES
from tfscale.trainer.probe.usual_steps import UsualSteps
from tfscale.trainer.probe.workers import Coordinator
from tfscale.v1 import report_pb2, telemetry_pb2


def message(identity: Identity, report: Report) -> report_pb2.TaskReport:
    return report_pb2.TaskReport(
        probe=None if report.status is None else probe_status(report.status),
        collective=telemetry_pb2.Collective(**report.collective._asdict()),
        training=None if report.training is None else telemetry_pb2.Training(**report.training._asdict()),
        activities=map(_activity, report.activities),
        coordinator=None if report.coordinator is None else _coordinator(report.coordinator),
        steps=[
            telemetry_pb2.StepBatch(**_reporter(identity), **columns)
            for columns in report_batches(identity.task, report)
        ],
    )


def serialised(identity: Identity, report: Report) -> bytes:
    """Return the bytes of the report's message.

    Columns of usual steps are copied as they are, which takes a third of the CPU of numbers that are converted one by
    one. Messages that follow each other are read as one that has all their fields.
    """
    steps = report.steps
    if not isinstance(steps, UsualSteps):
        return message(identity, report).SerializeToString()
    packed = report_pb2.PackedReport(steps=[_packed(identity, steps, report.lost)])
    return message(identity, report._replace(steps=(), lost=0)).SerializeToString() + packed.SerializeToString()


def _packed(identity: Identity, steps: UsualSteps, lost: int) -> report_pb2.PackedSteps:
    phases = {
        phase: seconds.tobytes()
        for phase, seconds in zip(PHASES, steps.phases.astype("<f4"), strict=True)
        if not np.isnan(seconds).all()
    }
    return report_pb2.PackedSteps(
        **_reporter(identity),
        subject=identity.task,
        sequence=range(steps.first, steps.first + len(steps)),
        global_step=steps.global_step,
        end=steps.end.astype("<f8").tobytes(),
        lost=lost,
        **phases,
    )


def _reporter(identity: Identity) -> dict[str, Any]:
    return {"generation": identity.generation, "attempt": identity.attempt, "reporter": identity.task}


def probe_status(status: Status) -> telemetry_pb2.ProbeStatus:
    state = telemetry_pb2.PROBE_STATE_WAITING
    if status.disabled:
        state = telemetry_pb2.PROBE_STATE_DISABLED
    elif status.measuring:
        state = telemetry_pb2.PROBE_STATE_MEASURING
    program = status.program
    return telemetry_pb2.ProbeStatus(
        state=state,
        message=status.disabled,
        strategy=program.strategy if program else None,
        replicas=program.replicas if program else None,
        local_replicas=program.local_replicas if program else None,
        ranks=program.replicas if program else None,
        collective=program.collective if program else None,
        reduced_bytes_per_step=status.reduced_bytes_per_step,
        examples_per_step=status.examples_per_step,
        tensorflow=status.tensorflow,
        keras=status.keras,
        warnings=status.warnings,
        checkpoint=status.checkpoint,
    )


def _activity(activity: Activity) -> telemetry_pb2.Activity:
    kind = telemetry_pb2.ActivityKind.Value(f"ACTIVITY_KIND_{activity.kind.upper()}")
    return telemetry_pb2.Activity(kind=kind, begin=activity.begin, end=activity.end)


def _coordinator(coordinator: Coordinator) -> telemetry_pb2.Coordinator:
    workers = [
        telemetry_pb2.WorkerFunctions(
            **{
                **functions._asdict(),
                "traffic": [telemetry_pb2.ServerTraffic(**each._asdict()) for each in functions.traffic],
            }
        )
        for functions in coordinator.workers
    ]
    return telemetry_pb2.Coordinator(**{**coordinator._asdict(), "workers": workers})
