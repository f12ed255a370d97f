"""The probe's reports as protobuf messages; the only module of the probe, beside the stream, that knows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tfscale.trainer.probe.reporter import Identity
from tfscale.trainer.probe.status import Status
from tfscale.trainer.probe.steps import Step
from tfscale.v1 import report_pb2, telemetry_pb2


class Collective(NamedTuple):
    """Cross-replica reductions entered and left so far, and when the newest was entered (Unix seconds)."""

    entered: int
    left: int
    entered_at: float | None


def report(
    identity: Identity, status: Status | None, collective: Collective, steps: Sequence[Step], lost: int
) -> report_pb2.TaskReport:
    """One report; `status` only where it has changed."""
    return report_pb2.TaskReport(
        probe=None if status is None else _probe_status(status),
        collective=telemetry_pb2.Collective(**collective._asdict()),
        steps=[_batch(identity, steps, lost)] if steps or lost else [],
    )


def _probe_status(status: Status) -> telemetry_pb2.ProbeStatus:
    state = telemetry_pb2.PROBE_STATE_WAITING
    if status.disabled:
        state = telemetry_pb2.PROBE_STATE_DISABLED
    elif status.measuring:
        state = telemetry_pb2.PROBE_STATE_MEASURING
    return telemetry_pb2.ProbeStatus(
        state=state,
        message=status.disabled,
        strategy=status.strategy,
        replicas=status.replicas,
        local_replicas=status.local_replicas,
        ranks=status.replicas,
        reduced_bytes_per_step=status.reduced_bytes_per_step,
        examples_per_step=status.examples_per_step,
        tensorflow=status.tensorflow,
        keras=status.keras,
        warnings=status.warnings,
    )


def _batch(identity: Identity, steps: Sequence[Step], lost: int) -> telemetry_pb2.StepBatch:
    return telemetry_pb2.StepBatch(
        generation=identity.generation,
        attempt=identity.attempt,
        reporter=identity.task,
        subject=identity.task,
        sequence=[step.sequence for step in steps],
        end=[step.end for step in steps],
        update=[step.update for step in steps],
        host=[step.host for step in steps],
        input=[step.input for step in steps],
        compute=[step.compute for step in steps],
        reduce=[step.reduce for step in steps],
        lost=lost,
        clamped=sum(step.clamped for step in steps),
    )
