# Small files on a local disk.
# ruff: noqa: ASYNC240

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from report_connection import connected, said, serving
from tfscale.agent.serving.report_server import ReportServer
from tfscale.agent.telemetry import probe_reports
from tfscale.agent.telemetry.probe_reports import ProbeReports
from tfscale.core.cluster.task import Task
from tfscale.core.records.probe_status import Activity, ActivityKind, Collective, ProbeState
from tfscale.core.records.training import Training
from tfscale.core.wire.framing import framed
from tfscale.trainer.probe.process import presence
from tfscale.v1 import report_pb2, telemetry_pb2

TASK = Task.parse("worker:1")


@asynccontextmanager
async def served(path: Path) -> AsyncIterator[ProbeReports]:
    """Yield reports that expect generation 3, attempt 2."""
    reports = ProbeReports(TASK)
    reports.begin(3, 2)
    async with serving(path, reports):
        yield reports


@pytest.fixture
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s") / "r.sock"


def hello(**changes: Any) -> report_pb2.TaskReport:
    fields = {"schema_version": 1, "task": "worker:1", "generation": 3, "attempt": 2, "pid": 1, **changes}
    return report_pb2.TaskReport(hello=report_pb2.Hello(**fields))


def taken(reports: ProbeReports) -> list[telemetry_pb2.StepBatch]:
    return [telemetry_pb2.StepBatch.FromString(batch.message) for batch in reports.take_steps()]


async def refusal(path: Path, *messages: report_pb2.TaskReport) -> str:
    async with connected(path) as connection:
        connection.say(*messages)
        return await connection.refused()


async def test_texts_of_megabytes_are_cut_as_they_come(path: Path) -> None:
    probe = telemetry_pb2.ProbeStatus(
        state=telemetry_pb2.PROBE_STATE_MEASURING, message="m" * 2_000_000, warnings=["w" * 2_000_000]
    )
    async with served(path) as reports:
        await said(path, hello(), report_pb2.TaskReport(probe=probe))
        assert reports.probe is not None
        assert (len(reports.probe.message), len(reports.probe.warnings[0])) == (2000, 2000)


async def test_fifty_warnings_are_kept_and_the_others_counted(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def report(first: int) -> report_pb2.TaskReport:
        warnings = [f"warning {number}" for number in range(first, first + 1000)]
        return report_pb2.TaskReport(
            probe=telemetry_pb2.ProbeStatus(state=telemetry_pb2.PROBE_STATE_MEASURING, warnings=warnings)
        )

    left_out = "more warnings of this probe are left out: the first 50 are kept"
    async with served(path) as reports:
        await said(path, hello(), report(0))
        assert reports.probe is not None
        assert reports.probe.warnings == (*(f"warning {number}" for number in range(50)), f"950 {left_out}")
        await said(path, hello(), report(1), report(2000), report(3000), report(25))
        assert reports.probe.warnings == (*(f"warning {number}" for number in range(25, 50)), f"975 {left_out}")
    assert sum("left out" in record.getMessage() for record in caplog.records) == 1


async def test_everything_that_a_probe_says_is_collected(path: Path) -> None:
    probe = telemetry_pb2.ProbeStatus(
        state=telemetry_pb2.PROBE_STATE_MEASURING, strategy="MirroredStrategy", replicas=2
    )
    collective = telemetry_pb2.Collective(entered=5, left=4, entered_at=1.5)
    batches = [
        telemetry_pb2.StepBatch(subject="worker:1", reporter="worker:1", sequence=[n], end=[n + 0.5]) for n in range(3)
    ]
    async with served(path) as reports:
        rest = report_pb2.TaskReport(probe=probe, collective=collective, steps=batches)
        await said(path, hello(), rest)
        assert reports.probe is not None
        assert (reports.probe.state, reports.probe.replicas, reports.probe.ranks) == (ProbeState.MEASURING, 2, None)
        assert reports.collective == Collective(5, 4, 1.5)
        assert [list(batch.sequence) for batch in taken(reports)] == [[0], [1], [2]]
        assert reports.take_steps() == ()


async def test_an_activity_is_told_while_it_lasts_and_once_when_it_has_ended(path: Path) -> None:
    def activity(end: float | None) -> report_pb2.TaskReport:
        kind = telemetry_pb2.ACTIVITY_KIND_CHECKPOINT
        return report_pb2.TaskReport(activities=[telemetry_pb2.Activity(kind=kind, begin=1.0, end=end)])

    async with served(path) as reports:
        await said(path, hello(), activity(None))
        lasting = (Activity(ActivityKind.CHECKPOINT, 1.0),)
        assert (reports.take_activities(), reports.take_activities()) == (lasting, lasting)
        await said(path, hello(), activity(2.5))
        assert reports.take_activities() == (Activity(ActivityKind.CHECKPOINT, 1.0, 2.5),)
        assert reports.take_activities() == ()


async def test_how_the_training_goes_is_kept(path: Path) -> None:
    async with served(path) as reports:
        training = telemetry_pb2.Training(epoch=3, global_step=70, finite=False)
        await said(path, hello(), report_pb2.TaskReport(training=training))
        assert reports.training == Training(epoch=3, global_step=70, loss=None, finite=False)


async def test_steps_outside_of_a_strategy_that_joins_workers_leave_them_joined(path: Path) -> None:
    def steps_under(strategy: str | None, replicas: int) -> report_pb2.TaskReport:
        measuring = telemetry_pb2.PROBE_STATE_MEASURING
        probe = telemetry_pb2.ProbeStatus(state=measuring, strategy=strategy, replicas=replicas, local_replicas=1)
        return report_pb2.TaskReport(probe=probe)

    async with served(path) as reports:
        await said(path, hello(), steps_under(None, 1))
        assert reports.strategy == "_DefaultDistributionStrategy"
        await said(path, hello(), steps_under("MultiWorkerMirroredStrategy", 2))
        assert reports.strategy == "MultiWorkerMirroredStrategy"
        await said(path, hello(), steps_under(None, 1))
        assert reports.strategy == "MultiWorkerMirroredStrategy"


async def test_the_checkpoint_of_an_attempt_before_is_still_the_newest(path: Path) -> None:
    def status(checkpoint: float | None) -> report_pb2.TaskReport:
        measuring = telemetry_pb2.PROBE_STATE_MEASURING
        return report_pb2.TaskReport(probe=telemetry_pb2.ProbeStatus(state=measuring, checkpoint=checkpoint))

    async with served(path) as reports:
        await said(path, hello(), status(None))
        assert reports.probe is not None and reports.probe.checkpoint is None
        await said(path, hello(), status(1000.5))
        reports.begin(4, 1)
        await said(path, hello(generation=4, attempt=1), status(None))
        assert reports.probe.checkpoint == 1000.5


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"task": "worker:0"}, "not the attempt that runs here: worker:1, generation 3, attempt 2"),
        ({"generation": 2}, "not the attempt"),
        ({"attempt": 1}, "not the attempt"),
        ({"schema_version": 99}, "schema 99 is newer than this agent's 1: upgrade the agent"),
    ],
    ids=str,
)
async def test_a_hello_of_another_attempt_is_refused(path: Path, wrong: dict[str, Any], why: str) -> None:
    async with served(path):
        assert why in await refusal(path, hello(**wrong))


async def test_a_probe_that_is_newer_than_its_agent_is_told_as_absent(path: Path) -> None:
    async with served(path) as reports:
        await refusal(path, hello(attempt=1))
        assert reports.probe is None
        await refusal(path, hello(schema_version=99))
        assert reports.probe is not None and reports.probe.state is ProbeState.ABSENT
        why = "its reports are refused: schema 99 is newer than this agent's 1: upgrade the agent, and start it anew"
        assert reports.probe.message == why
        await said(path, hello(), report_pb2.TaskReport(collective=telemetry_pb2.Collective(entered=1)))
        assert reports.collective == Collective(1, 0)


async def test_problems_of_the_probe_and_refusals_are_in_the_agents_log(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disabled = telemetry_pb2.ProbeStatus(
        state=telemetry_pb2.PROBE_STATE_DISABLED, message="no strategy", warnings=["TensorFlow 9 was never tried"]
    )
    async with served(path):
        await said(path, hello(), *[report_pb2.TaskReport(probe=disabled)] * 2)
        await refusal(path, hello(attempt=1))
    logged = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert logged == [
        ("ERROR", "the probe has stopped measuring: no strategy"),
        ("WARNING", "the probe: TensorFlow 9 was never tried"),
        (
            "WARNING",
            "refused the reports of a process: not the attempt that runs here: worker:1, generation 3, attempt 2",
        ),
    ]


async def test_no_hello_is_refused(path: Path) -> None:
    async with served(path):
        assert "no hello" in await refusal(path, report_pb2.TaskReport())


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"subject": ""}, "'' is not a task"),
        ({"reporter": "worker:one"}, "'worker:one' is not a task"),
        ({"subject": "cluster"}, "steps of the cluster"),
        ({"sequence": [1 << 60]}, "beyond what can be counted"),
    ],
)
async def test_steps_that_no_console_would_read_are_refused(path: Path, changes: dict[str, Any], why: str) -> None:
    fields = {"subject": "worker:1", "reporter": "worker:1", "sequence": [1], "end": [1.0], **changes}
    async with served(path):
        assert why in await refusal(path, hello(), report_pb2.TaskReport(steps=[telemetry_pb2.StepBatch(**fields)]))


async def test_columns_of_unequal_length_are_refused(path: Path) -> None:
    steps = telemetry_pb2.StepBatch(
        subject="worker:1", reporter="worker:1", sequence=[1, 2], end=[1.0, 2.0], reduce=[0.1]
    )
    async with served(path):
        assert "reduce has 1 rows, not 2" in await refusal(path, hello(), report_pb2.TaskReport(steps=[steps]))


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"PRI * HTTP/2.0\r\n\r\n", "a message of 1,347,569,952 bytes: the sender speaks another protocol"),
        (b"\0\0\0\3abc", "Error parsing message"),
    ],
    ids=["another protocol", "no message"],
)
async def test_what_is_no_message_is_refused(path: Path, message: bytes, why: str) -> None:
    async with served(path) as reports, connected(path) as connection:
        connection.say(hello())
        await connection.accepted()
        connection.say_bytes(message)
        assert why in await connection.refused()
        assert reports.listener is None
        await said(path, hello())


async def test_a_process_that_dies_in_a_message_has_not_said_it(path: Path) -> None:
    steps = telemetry_pb2.StepBatch(subject="worker:1", reporter="worker:1", sequence=[1], end=[1.0])
    whole = framed(report_pb2.TaskReport(steps=[steps]).SerializeToString())
    async with served(path) as reports, connected(path) as connection:
        connection.say(hello())
        await connection.accepted()
        connection.say_bytes(whole + whole[:-1])
        await connection.end()
        assert len(reports.take_steps()) == 1
        await said(path, hello())


def steps_of(number: int) -> report_pb2.TaskReport:
    batch = telemetry_pb2.StepBatch(subject="worker:1", reporter="worker:1", sequence=[number], end=[1.0])
    measuring = telemetry_pb2.ProbeStatus(state=telemetry_pb2.PROBE_STATE_MEASURING)
    return report_pb2.TaskReport(probe=measuring, steps=[batch])


def notes(reports: ProbeReports) -> tuple[str, ...]:
    return reports.probe.warnings if reports.probe else ()


async def test_a_second_process_that_does_not_train_waits_until_the_first_is_gone(path: Path) -> None:
    async with served(path) as reports, connected(path) as first:
        first.say(hello())
        await first.accepted()
        async with connected(path) as second:
            second.say(hello(pid=2))
            assert await second.waits() == "another process reports, and this one does not train"
        await first.end()
        await said(path, hello(pid=2), steps_of(0))
        assert notes(reports) == ()


async def test_a_process_that_trains_takes_the_place_of_one_that_does_not(path: Path) -> None:
    async with served(path) as reports, connected(path) as helper, connected(path) as trainer:
        strategy = telemetry_pb2.ProbeStatus(state=telemetry_pb2.PROBE_STATE_WAITING, strategy="OneDeviceStrategy")
        helper.say(hello(), report_pb2.TaskReport(probe=strategy, training=telemetry_pb2.Training(epoch=1)))
        await helper.accepted()
        trainer.say(hello(pid=2, trains=True), steps_of(0))
        await trainer.accepted()
        assert await helper.waits() == "another process of the task trains"
        await trainer.end()
        assert [batch.sequence[0] for batch in taken(reports)] == [0]
        assert (notes(reports), reports.training) == ((), None)


async def test_a_reporter_gives_its_place_also_to_a_process_that_has_connected_before_it(path: Path) -> None:
    async with served(path) as reports, connected(path) as trainer:
        await asyncio.sleep(0.05)
        async with connected(path) as helper:
            helper.say(hello())
            await helper.accepted()
            trainer.say(hello(pid=2, trains=True), steps_of(0))
            await trainer.accepted()
            assert await helper.waits() == "another process of the task trains"
            reports.hear()


async def test_the_second_of_two_processes_that_train_at_once_waits_and_is_named(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = "not measured: process 2 trains as well, and only process 1 of this task is measured"
    async with served(path) as reports, connected(path) as first:
        first.say(hello(), steps_of(0))
        await first.accepted()
        while reports.probe is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for _ in range(2):
            async with connected(path) as second:
                second.say(hello(pid=2, trains=True))
                assert await second.waits() == "another process trains"
        assert notes(reports) == (told,)
        assert [record.getMessage() for record in caplog.records] == [told]
        monkeypatch.setattr(probe_reports, "_GONE", 0.0)
        assert notes(reports) == ()


async def test_a_probe_whose_threads_are_gone_is_told_while_its_process_runs(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_reports, "_LOST", 0.0)
    presence.show()
    async with served(path) as reports:
        await said(path, hello(pid=7), steps_of(0))
        assert reports.probe is not None and reports.probe.state is ProbeState.DISABLED
        assert reports.probe.message == "its process 7 runs on, and its probe reports no more: restart the task"
        presence.hide()
        assert reports.probe.state is not ProbeState.DISABLED


async def test_a_process_that_has_trained_and_pauses_for_long_gives_way(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_reports, "_PAUSE", 0.0)
    async with served(path) as reports, connected(path) as first:
        first.say(hello(), steps_of(0))
        await first.accepted()
        while reports.probe is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await said(path, hello(pid=2, trains=True), steps_of(0))
        assert await first.waits() == "another process of the task trains"
        (note,) = notes(reports)
        assert note.startswith("process 2 trains since ")
        assert note.endswith(", after another one of this attempt: its steps are counted from 0")
        reports.begin(3, 3)
        await said(path, hello(attempt=3, pid=3), steps_of(0))
        assert notes(reports) == ()


async def test_a_new_attempt_ends_the_old_ones_connection_and_keeps_its_last_steps(path: Path) -> None:
    steps = telemetry_pb2.StepBatch(subject="worker:1", reporter="worker:1", sequence=[1], end=[1.0])
    probe = telemetry_pb2.ProbeStatus(state=telemetry_pb2.PROBE_STATE_MEASURING, strategy="MirroredStrategy")
    async with served(path) as reports, connected(path) as old:
        old.say(hello(), report_pb2.TaskReport(steps=[steps], probe=probe))
        while reports.probe is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        reports.begin(4, 1)
        old.say(report_pb2.TaskReport(steps=[steps]))
        assert "an attempt that has ended" in await old.refused()
        assert len(reports.take_steps()) == 1
        assert (reports.probe, reports.strategy) == (None, "MirroredStrategy")


async def test_what_is_said_waits_until_a_frame_is_made_or_another_attempt_begins(path: Path) -> None:
    def steps(number: int) -> report_pb2.TaskReport:
        batch = telemetry_pb2.StepBatch(subject="worker:1", reporter="worker:1", sequence=[number], end=[1.0])
        return report_pb2.TaskReport(steps=[batch])

    reports = ProbeReports(TASK)
    reports.begin(3, 2)
    server = ReportServer(path, reports, lambda: str(path), lambda _: True)
    await server.start()
    async with connected(path) as connection:
        connection.say(hello())
        await connection.accepted()
        connection.say(steps(1))
        await asyncio.sleep(0.1)
        assert reports.take_steps() == ()
        reports.hear()
        assert [batch.sequence[0] for batch in taken(reports)] == [1]
        connection.say(steps(2))
        await asyncio.sleep(0.1)
        # The process has died, and another is about to be started.
        reports.begin(3, 3)
        assert [batch.sequence[0] for batch in taken(reports)] == [2]
    await server.stop()


async def test_an_agent_that_ends_lets_go_of_a_process_that_does_not(path: Path) -> None:
    reports = ProbeReports(TASK)
    reports.begin(3, 2)
    async with serving(path, reports) as server, connected(path) as connection:
        connection.say(hello())
        await connection.accepted()
        await server.stop()
        await connection.closed()


async def test_the_socket_is_private_and_taken_over_from_a_killed_agent(path: Path) -> None:
    path.touch()
    async with served(path):
        assert path.stat().st_mode & 0o077 == 0
        await said(path, hello())
