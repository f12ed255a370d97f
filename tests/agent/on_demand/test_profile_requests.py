"""Profiles, ordered over a real socket from a process that is played here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from report_connection import Connection, connected, serving
from tfscale.agent.on_demand.profile_requests import ProfileBusy, Profiler, ProfileTimeout, ProfileUnavailable
from tfscale.agent.telemetry.probe_reports import ProbeReports
from tfscale.core.cluster.task import Task
from tfscale.core.errors import UsageError
from tfscale.core.records.profile import ProfileOrder, ProfileReport, ProfileStage
from tfscale.v1 import report_pb2

HELLO = report_pb2.Hello(schema_version=1, task="worker:1", generation=3, attempt=2, pid=1)


@pytest.fixture
async def socket(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[ProbeReports, Connection]]:
    """Yield the socket on which an agent hears reports, and a process that it has heard."""
    path = tmp_path_factory.mktemp("s") / "r.sock"
    reports = ProbeReports(Task.parse("worker:1"))
    reports.begin(3, 2)
    async with serving(path, reports), connected(path) as connection:
        connection.say(report_pb2.TaskReport(hello=HELLO))
        await connection.accepted()
        yield reports, connection


async def listening(profiler: Profiler) -> asyncio.Task[ProfileOrder]:
    """Return a task that waits for one order; its listener stays open after that."""
    orders = profiler.listen()
    waiting = asyncio.create_task(anext(orders))
    waiting.orders = orders  # type: ignore[attr-defined]  # else it would be closed when it is no longer known
    await asyncio.sleep(0)
    return waiting


async def process(connection: Connection, folder: Path, file: Path) -> None:
    """Play a process that takes the profile that it is asked for."""
    order = (await connection.reply()).profile
    assert (order.seconds, order.folder) == (2.0, str(folder))
    for stage in (
        report_pb2.PROFILE_STAGE_CAPTURING,
        report_pb2.PROFILE_STAGE_WRITING,
        report_pb2.PROFILE_STAGE_WRITTEN,
    ):
        told = report_pb2.ProfileReport(number=order.number, stage=stage, file=str(file))
        connection.say(report_pb2.TaskReport(profile=told))


async def test_a_profile_is_ordered_told_of_and_found(socket: tuple[ProbeReports, Connection], tmp_path: Path) -> None:
    reports, connection = socket
    file = tmp_path / "host.xplane.pb"
    file.write_bytes(b"12345")
    playing = asyncio.create_task(process(connection, tmp_path, file))
    moments = [moment async for moment in reports.profiler.profile(2.0, tmp_path)]
    await playing
    assert [moment.stage.name for moment in moments] == ["ASKED", "CAPTURING", "WRITING", "WRITTEN"]
    assert (moments[-1].file, moments[-1].bytes) == (str(file), 5)


async def test_a_profile_that_is_fetched_comes_piece_by_piece(
    socket: tuple[ProbeReports, Connection], tmp_path: Path
) -> None:
    reports, connection = socket
    file, content = tmp_path / "host.xplane.pb", bytes(range(256)) * 10_000
    file.write_bytes(content)
    playing = asyncio.create_task(process(connection, tmp_path, file))
    pieces = [moment.content async for moment in reports.profiler.profile(2.0, tmp_path, fetch=True) if moment.content]
    await playing
    assert b"".join(pieces) == content and max(map(len, pieces)) == 1 << 20


async def test_no_file_is_sent_but_from_the_folder_of_profiles(
    socket: tuple[ProbeReports, Connection], tmp_path: Path
) -> None:
    reports, connection = socket
    folder, secret = tmp_path / "profiles", tmp_path / "secret"
    folder.mkdir()
    secret.write_text("of the agent's user")
    (folder / "link").symlink_to(secret)
    playing = asyncio.create_task(process(connection, folder, folder / "link"))
    with pytest.raises(ProfileUnavailable, match="and so not sent"):
        async for moment in reports.profiler.profile(2.0, folder, fetch=True):
            assert not moment.content
    await playing


async def test_a_process_that_goes_meanwhile_is_said(socket: tuple[ProbeReports, Connection], tmp_path: Path) -> None:
    reports, connection = socket
    moments = reports.profiler.profile(2.0, tmp_path)
    await anext(moments)
    await connection.reply()
    connection.drop()
    with pytest.raises(ProfileUnavailable, match="the process ended"):
        await anext(moments)
    with pytest.raises(ProfileUnavailable, match="no probe listens"):
        await anext(reports.profiler.profile(2.0, tmp_path))


@pytest.mark.parametrize("seconds", [0.0, -1.0, 61.0, float("nan")])
async def test_seconds_that_cannot_be_are_refused(seconds: float) -> None:
    with pytest.raises(UsageError, match="seconds of a profile"):
        await anext(Profiler().profile(seconds, Path()))


async def test_where_nobody_listens_there_is_none() -> None:
    with pytest.raises(ProfileUnavailable, match="no probe listens"):
        await anext(Profiler().profile(1.0, Path()))


async def test_one_at_a_time_and_the_next_when_that_is_over() -> None:
    profiler = Profiler()
    waiting = await listening(profiler)
    first = profiler.profile(1.0, Path())
    await anext(first)
    with pytest.raises(ProfileBusy):
        await anext(profiler.profile(1.0, Path()))
    number = (await waiting).number
    profiler.report(ProfileReport(number, ProfileStage.FAILED, message="another profiler is at work"))
    with pytest.raises(ProfileUnavailable, match="another profiler"):
        await anext(first)
    assert (await anext(profiler.profile(1.0, Path()))).stage is ProfileStage.ASKED


async def test_a_process_that_ends_meanwhile_is_said() -> None:
    profiler = Profiler()
    waiting = await listening(profiler)
    moments = profiler.profile(1.0, Path())
    await anext(moments)
    await waiting
    await waiting.orders.aclose()  # type: ignore[attr-defined]
    with pytest.raises(ProfileUnavailable, match="the process ended"):
        await anext(moments)


async def test_a_process_that_does_not_answer_is_said_to_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfscale.agent.on_demand.profile_requests._BEGIN_TIMEOUT", 0.05)
    profiler = Profiler()
    waiting = await listening(profiler)
    moments = profiler.profile(1.0, Path())
    await anext(moments)
    with pytest.raises(ProfileTimeout):
        await anext(moments)
    await waiting


async def test_a_file_that_is_not_there_is_no_profile(tmp_path: Path) -> None:
    profiler = Profiler()
    waiting = await listening(profiler)
    moments = profiler.profile(1.0, tmp_path)
    await anext(moments)
    profiler.report(ProfileReport((await waiting).number, ProfileStage.WRITTEN, file=str(tmp_path / "none")))
    with pytest.raises(ProfileUnavailable, match="says that it wrote this"):
        await anext(moments)
