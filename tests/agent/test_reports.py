# Small files on a local disk.
# ruff: noqa: ASYNC240

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from tfscale.agent.reports import Reports
from tfscale.agent.servers import ReportServer, ServerError
from tfscale.core.records import Activity, ActivityKind, Collective, ProbeState, Training
from tfscale.core.task import Task
from tfscale.v1 import report_pb2, report_pb2_grpc, telemetry_pb2

TASK = Task.parse("worker:1")


@asynccontextmanager
async def served(path: Path) -> AsyncIterator[tuple[Reports, Any]]:
    """Reports that expect generation 3, attempt 2, and a client's stub."""
    reports = Reports(TASK)
    reports.begin(3, 2)
    server = ReportServer(path, reports)
    await server.start()
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        yield reports, report_pb2_grpc.ReportsStub(channel)
    await server.stop()


@pytest.fixture
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s") / "r.sock"


def hello(**changes: Any) -> report_pb2.TaskReport:
    fields = {"schema_version": 1, "task": "worker:1", "generation": 3, "attempt": 2, "pid": 1, **changes}
    return report_pb2.TaskReport(hello=report_pb2.Hello(**fields))


async def refusal(stub: Any, *messages: report_pb2.TaskReport) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Report(iter(messages))
    return caught.value.code(), caught.value.details() or ""


async def test_everything_that_a_probe_says_is_collected(path: Path) -> None:
    probe = telemetry_pb2.ProbeStatus(
        state=telemetry_pb2.PROBE_STATE_MEASURING, strategy="MirroredStrategy", replicas=2
    )
    collective = telemetry_pb2.Collective(entered=5, left=4, entered_at=1.5)
    batches = [telemetry_pb2.StepBatch(subject="worker:1", sequence=[n], end=[n + 0.5]) for n in range(3)]
    async with served(path) as (reports, stub):
        rest = report_pb2.TaskReport(probe=probe, collective=collective, steps=batches)
        await stub.Report(iter([hello(), rest]))
        assert reports.probe is not None
        assert (reports.probe.state, reports.probe.replicas, reports.probe.ranks) == (ProbeState.MEASURING, 2, None)
        assert reports.collective == Collective(5, 4, 1.5)
        assert [list(batch.sequence) for batch in reports.take_steps()] == [[0], [1], [2]]
        assert reports.take_steps() == ()


async def test_an_activity_is_told_while_it_lasts_and_once_when_it_has_ended(path: Path) -> None:
    def activity(end: float | None) -> report_pb2.TaskReport:
        kind = telemetry_pb2.ACTIVITY_KIND_CHECKPOINT
        return report_pb2.TaskReport(activities=[telemetry_pb2.Activity(kind=kind, begin=1.0, end=end)])

    async with served(path) as (reports, stub):
        await stub.Report(iter([hello(), activity(None)]))
        lasting = (Activity(ActivityKind.CHECKPOINT, 1.0),)
        assert (reports.take_activities(), reports.take_activities()) == (lasting, lasting)
        await stub.Report(iter([hello(), activity(2.5)]))
        assert reports.take_activities() == (Activity(ActivityKind.CHECKPOINT, 1.0, 2.5),)
        assert reports.take_activities() == ()


async def test_how_the_training_goes_is_kept(path: Path) -> None:
    async with served(path) as (reports, stub):
        training = telemetry_pb2.Training(epoch=3, global_step=70, finite=False)
        await stub.Report(iter([hello(), report_pb2.TaskReport(training=training)]))
        assert reports.training == Training(epoch=3, global_step=70, loss=None, finite=False)


async def test_the_checkpoint_of_an_attempt_before_is_still_the_newest(path: Path) -> None:
    def said(checkpoint: float | None) -> report_pb2.TaskReport:
        status = telemetry_pb2.ProbeStatus(state=telemetry_pb2.PROBE_STATE_MEASURING, checkpoint=checkpoint)
        return report_pb2.TaskReport(probe=status)

    async with served(path) as (reports, stub):
        await stub.Report(iter([hello(), said(None)]))
        assert reports.probe is not None and reports.probe.checkpoint is None
        await stub.Report(iter([hello(), said(1000.5)]))
        reports.begin(4, 1)
        await stub.Report(iter([hello(generation=4, attempt=1), said(None)]))
        assert reports.probe.checkpoint == 1000.5


@pytest.mark.parametrize(
    "wrong", [{"task": "worker:0"}, {"generation": 2}, {"attempt": 1}, {"schema_version": 99}], ids=str
)
async def test_a_hello_of_another_attempt_is_refused(path: Path, wrong: dict[str, Any]) -> None:
    async with served(path) as (_, stub):
        assert (await refusal(stub, hello(**wrong)))[0] is grpc.StatusCode.FAILED_PRECONDITION


async def test_no_hello_is_refused(path: Path) -> None:
    async with served(path) as (_, stub):
        assert (await refusal(stub, report_pb2.TaskReport()))[0] is grpc.StatusCode.FAILED_PRECONDITION


async def test_columns_of_unequal_length_are_refused(path: Path) -> None:
    steps = telemetry_pb2.StepBatch(subject="worker:1", sequence=[1, 2], end=[1.0, 2.0], reduce=[0.1])
    async with served(path) as (_, stub):
        code, details = await refusal(stub, hello(), report_pb2.TaskReport(steps=[steps]))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "reduce has 1 rows, not 2" in details


async def test_a_second_reporter_is_refused_until_the_first_is_gone(path: Path) -> None:
    async with served(path) as (_, stub):
        first = stub.Report()
        await first.write(hello())
        second = stub.Report()
        await second.write(hello())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await second
        assert caught.value.code() is grpc.StatusCode.ALREADY_EXISTS
        await first.done_writing()
        await first
        await stub.Report(iter([hello()]))


async def test_a_new_attempt_ends_the_old_ones_stream_and_keeps_its_last_steps(path: Path) -> None:
    steps = telemetry_pb2.StepBatch(subject="worker:1", sequence=[1], end=[1.0])
    probe = telemetry_pb2.ProbeStatus(state=telemetry_pb2.PROBE_STATE_MEASURING, strategy="MirroredStrategy")
    async with served(path) as (reports, stub):
        old = stub.Report()
        await old.write(hello())
        await old.write(report_pb2.TaskReport(steps=[steps], probe=probe))
        while reports.probe is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        reports.begin(4, 1)
        await old.write(report_pb2.TaskReport(steps=[steps]))
        with pytest.raises(grpc.aio.AioRpcError, match="an attempt that has ended"):
            await old
        assert len(reports.take_steps()) == 1
        assert (reports.probe, reports.strategy) == (None, "MirroredStrategy")


async def test_the_socket_is_private_and_taken_over_from_a_killed_agent(path: Path) -> None:
    path.touch()
    async with served(path) as (_, stub):
        assert path.stat().st_mode & 0o077 == 0
        await stub.Report(iter([hello()]))


async def test_a_socket_that_cannot_be_made_is_one_clear_error() -> None:
    with pytest.raises(ServerError, match=r"/proc/none/r\.sock"):
        await ReportServer(Path("/proc/none/r.sock"), Reports(TASK)).start()
