from dataclasses import fields

import pytest
from tfscale.core import records
from tfscale.v1 import agent_pb2, report_pb2, telemetry_pb2

PAIRS = [
    (records.Frame, telemetry_pb2.Frame),
    (records.StepBatch, telemetry_pb2.StepBatch),
    (records.TaskStatus, telemetry_pb2.TaskStatus),
    (records.Exit, telemetry_pb2.Exit),
    (records.ProbeStatus, telemetry_pb2.ProbeStatus),
    (records.Collective, telemetry_pb2.Collective),
    (records.Activity, telemetry_pb2.Activity),
    (records.Training, telemetry_pb2.Training),
    (records.Coordinator, telemetry_pb2.Coordinator),
    (records.WorkerFunctions, telemetry_pb2.WorkerFunctions),
    (records.ServerTraffic, telemetry_pb2.ServerTraffic),
    (records.HostSample, telemetry_pb2.HostSample),
    (records.Pressure, telemetry_pb2.Pressure),
    (records.Interface, telemetry_pb2.Interface),
    (records.TaskUsage, telemetry_pb2.TaskUsage),
    (records.GpuSample, telemetry_pb2.GpuSample),
    (records.Description, agent_pb2.Description),
    (records.ProfileOrder, report_pb2.ProfileOrder),
    (records.ProfileReport, report_pb2.ProfileReport),
]


@pytest.mark.parametrize(("record", "message"), PAIRS)
def test_records_and_the_wire_have_the_same_fields(record: type, message: type) -> None:
    written = {field.name for field in message.DESCRIPTOR.fields} - {"schema_version"}
    assert {field.name for field in fields(record)} == written


@pytest.mark.parametrize(
    ("states", "enumeration", "prefix"),
    [
        (records.TaskState, telemetry_pb2.TaskState, "TASK_STATE_"),
        (records.ProbeState, telemetry_pb2.ProbeState, "PROBE_STATE_"),
        (records.ActivityKind, telemetry_pb2.ActivityKind, "ACTIVITY_KIND_"),
        (records.ProfileStage, report_pb2.ProfileStage, "PROFILE_STAGE_"),
    ],
)
def test_states_are_those_of_the_wire(states: type, enumeration: object, prefix: str) -> None:
    names = {name.removeprefix(prefix).lower() for name in enumeration.keys()}  # noqa: SIM118
    assert {str(state) for state in states} == names - {"unspecified"}


def test_the_phases_are_columns_of_a_batch_in_the_order_of_time() -> None:
    columns = [field.name for field in fields(records.StepBatch)]
    assert [name for name in columns if name in records.PHASES] == list(records.PHASES)
    assert records.LAG_PHASES == ("update", "host", "input", "compute")
