"""The socket of the task's reports: who may open it, and what happens when it is taken away."""

# Small files on a local disk.
# ruff: noqa: ASYNC240

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from report_connection import connected
from running_agents import W0, W1, agent, frame_when, runs
from tfscale.agent.cluster.journal import Journal
from tfscale.agent.on_demand.stack_requests import is_of_task as belongs
from tfscale.agent.serving.report_server import ReportServer, SocketLost
from tfscale.agent.settings import AgentSettings
from tfscale.agent.telemetry.probe_reports import ProbeReports
from tfscale.core.cluster.local.local_agents import local_agents
from tfscale.core.wire.framing import framed
from tfscale.core.wire.socket_name import socket_name
from tfscale.v1 import report_pb2, telemetry_pb2


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ReportServer]:
    server = ReportServer(
        tmp_path / "a" / "r.sock", ProbeReports(W1), lambda: str(tmp_path / "b" / "r.sock"), lambda _: True
    )
    yield server
    await server.stop()


async def test_the_socket_is_gone_when_the_agent_has_ended(server: ReportServer) -> None:
    await server.start()
    assert server.path.is_socket()
    await server.stop()
    assert not server.path.exists()


async def test_a_socket_that_cannot_be_made_is_made_elsewhere(server: ReportServer, tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    await server.start()
    assert server.path == tmp_path / "b" / "r.sock" and server.path.is_socket()


async def test_a_socket_that_cannot_be_made_anywhere_is_one_clear_error() -> None:
    server = ReportServer(Path("/proc/none/r.sock"), ProbeReports(W1), lambda: "/proc/nothing/r.sock", lambda _: True)
    with pytest.raises(SocketLost, match=r"/proc/nothing/r\.sock"):
        await server.start()


STRANGER = """
import os, socket, sys
os.setgroups([])
os.setuid(65534)
agent = socket.socket(socket.AF_UNIX)
try:
    agent.connect(sys.argv[1])
    sys.exit("the folder is open to others")
except PermissionError:
    agent.connect("\\0" + sys.argv[2])
try:
    agent.sendall(bytes.fromhex(sys.argv[3]))
    print("heard" if agent.recv(4096) else "refused")
except ConnectionError:
    print("refused")
"""


@pytest.mark.skipif(os.getuid() != 0, reason="another user's process is started as root alone")
@pytest.mark.parametrize("is_of_task", [True, False])
async def test_a_process_of_another_user_is_heard_if_it_belongs_to_the_task(tmp_path: Path, is_of_task: bool) -> None:
    tmp_path.chmod(0o700)
    reports = ProbeReports(W1)
    reports.begin(1, 1)
    other = await asyncio.create_subprocess_exec("sleep", "60")
    task = os.getpid() if is_of_task else other.pid
    server = ReportServer(tmp_path / "r.sock", reports, lambda: "", lambda pid: belongs(pid, task))
    await server.start()
    hello = report_pb2.Hello(schema_version=1, task="worker:1", generation=1, attempt=1, pid=1)
    message = framed(report_pb2.TaskReport(hello=hello, collective={"entered": 1}).SerializeToString())
    words = [str(server.path), socket_name(str(server.path))[1:], message.hex()]
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", STRANGER, *words, stdout=PIPE)
    said, _ = await process.communicate()
    await server.stop()
    other.kill()
    await other.wait()
    assert said.decode() == ("heard\n" if is_of_task else "refused\n")
    assert (reports.collective is not None) == is_of_task


async def test_a_name_that_a_stranger_has_taken_costs_the_name_alone(
    server: ReportServer, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(socket_name(str(server.path)))
        await server.start()
    assert server.path.is_socket()
    assert "processes of other users than this agent's cannot report: [Errno 98]" in caplog.text


async def test_a_runtime_folder_that_was_removed_is_made_anew_and_told(
    settings_of: Callable[..., AgentSettings], caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_of(W0)
    async with agent(settings):
        await runs(settings)
        path = Path(Journal(settings.files.journal).entry.socket or "")
        shutil.rmtree(os.environ["XDG_RUNTIME_DIR"])
        await frame_when(settings, lambda _: path.is_socket())
        hello = report_pb2.Hello(schema_version=1, task="worker:0", generation=1, attempt=1, pid=1)
        steps = telemetry_pb2.StepBatch(subject="worker:0", reporter="worker:0", sequence=[0], end=[1.0], compute=[0.5])
        async with connected(path) as process:
            process.say(report_pb2.TaskReport(hello=hello, steps=[steps]))
            await frame_when(settings, lambda frame: frame.steps)
        await frame_when(settings, lambda _: local_agents(os.environ))
    assert f"{path} was removed, as at a logout: reports come to {path} now" in caplog.text
    assert not path.exists()
