from dataclasses import fields

import pytest
from tfscale.core.records.frame import Description, Frame
from tfscale.core.records.host_sample import GpuSample, HostSample, Interface, Pressure, TaskUsage
from tfscale.core.records.probe_status import Activity, ActivityKind, Collective, ProbeState, ProbeStatus
from tfscale.core.records.profile import ProfileOrder, ProfileReport, ProfileStage
from tfscale.core.records.step_batch import LAG_PHASES, PHASES, Coordinator, ServerTraffic, StepBatch, WorkerFunctions
from tfscale.core.records.task_status import Exit, TaskState, TaskStatus
from tfscale.core.records.training import Training
from tfscale.v1 import agent_pb2, report_pb2, telemetry_pb2

PAIRS = [
    (Frame, telemetry_pb2.Frame),
    (StepBatch, telemetry_pb2.StepBatch),
    (TaskStatus, telemetry_pb2.TaskStatus),
    (Exit, telemetry_pb2.Exit),
    (ProbeStatus, telemetry_pb2.ProbeStatus),
    (Collective, telemetry_pb2.Collective),
    (Activity, telemetry_pb2.Activity),
    (Training, telemetry_pb2.Training),
    (Coordinator, telemetry_pb2.Coordinator),
    (WorkerFunctions, telemetry_pb2.WorkerFunctions),
    (ServerTraffic, telemetry_pb2.ServerTraffic),
    (HostSample, telemetry_pb2.HostSample),
    (Pressure, telemetry_pb2.Pressure),
    (Interface, telemetry_pb2.Interface),
    (TaskUsage, telemetry_pb2.TaskUsage),
    (GpuSample, telemetry_pb2.GpuSample),
    (Description, agent_pb2.Description),
    (ProfileOrder, report_pb2.ProfileOrder),
    (ProfileReport, report_pb2.ProfileReport),
]


@pytest.mark.parametrize(("record", "message"), PAIRS)
def test_records_and_the_wire_have_the_same_fields(record: type, message: type) -> None:
    written = {field.name for field in message.DESCRIPTOR.fields} - {"schema_version"}
    assert {field.name for field in fields(record)} == written


@pytest.mark.parametrize(
    ("states", "enumeration", "prefix"),
    [
        (TaskState, telemetry_pb2.TaskState, "TASK_STATE_"),
        (ProbeState, telemetry_pb2.ProbeState, "PROBE_STATE_"),
        (ActivityKind, telemetry_pb2.ActivityKind, "ACTIVITY_KIND_"),
        (ProfileStage, report_pb2.ProfileStage, "PROFILE_STAGE_"),
    ],
)
def test_states_are_those_of_the_wire(states: type, enumeration: object, prefix: str) -> None:
    names = {name.removeprefix(prefix).lower() for name in enumeration.keys()}  # noqa: SIM118
    assert {str(state) for state in states} == names - {"unspecified"}


def test_the_phases_are_columns_of_a_batch_in_the_order_of_time() -> None:
    columns = [field.name for field in fields(StepBatch)]
    assert [name for name in columns if name in PHASES] == list(PHASES)
    assert LAG_PHASES == ("update", "host", "input", "compute")
