"""Connections to an agent that say nothing, of which there are more than a process usually may have open."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from certificates import Issuer
from running_agents import W0, stub
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.v1 import agent_pb2

pytestmark = pytest.mark.usefixtures("source_roots")
USUAL = 256
"""Limit of open files under which the agent is started; on most systems it is 1,024."""
IDLE = 2 * USUAL
PROGRAM = "import resource, time; print(*resource.getrlimit(resource.RLIMIT_NOFILE), flush=True); time.sleep(60)"


@asynccontextmanager
async def limited_agent(settings: AgentSettings) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run an agent under the usual limit, until the context ends."""
    tls = settings.cluster.tls
    files = {} if tls is None else {name: str(getattr(tls, name)) for name in ("ca", "certificate", "key")}
    file = settings.state_dir / "cluster.json"
    file.write_text(json.dumps(json.loads(settings.cluster.to_json()) | ({"tls": files} if files else {})))
    words = ["--cluster", str(file), "--role", "worker", "--index", "0", "--run", settings.run]
    words += ["--state-dir", str(settings.state_dir), "--", sys.executable, "-c", PROGRAM]
    limited = ["sh", "-c", f'ulimit -Sn {USUAL}; exec "$@"', "sh", sys.executable, "-m", "tfscale.agent.cli"]
    agent = await asyncio.create_subprocess_exec(*limited, *words)
    try:
        yield agent
    finally:
        if agent.returncode is None:
            agent.terminate()
        await agent.wait()


async def describe(settings: AgentSettings, patience: float) -> str:
    """Return the task of which the agent says that it is its own."""
    async with stub(settings) as service:
        request = agent_pb2.DescribeRequest()
        description = await service.Describe(request, timeout=patience, wait_for_ready=True)
    return str(description.task)


async def test_idle_connections_leave_an_agent_answering_and_its_task_has_the_limit_that_it_would_have(
    make_cluster: Callable[[int], ClusterSpec], make_settings: Callable[..., AgentSettings]
) -> None:
    settings = make_settings(make_cluster(1), W0)
    async with limited_agent(settings):
        assert await describe(settings, 20) == "worker:0"
        with ExitStack() as stack:
            for _ in range(IDLE):
                stack.enter_context(socket.create_connection((settings.listen.host, settings.listen.port), 5))
            assert await describe(settings, 5) == "worker:0"
        await asyncio.sleep(1)
    lines = settings.files.log.read_text().splitlines()
    assert f"{USUAL} {resource.getrlimit(resource.RLIMIT_NOFILE)[1]}" in lines


@pytest.mark.slow
async def test_connections_that_begin_no_tls_are_closed_and_harm_nobody(
    make_cluster: Callable[[int], ClusterSpec], make_settings: Callable[..., AgentSettings], tmp_path: Path
) -> None:
    cluster = replace(make_cluster(1), tls=Issuer(tmp_path / "own").tls("host"))
    settings = make_settings(cluster, W0)
    async with limited_agent(settings) as agent:
        assert await describe(settings, 20) == "worker:0"
        with ExitStack() as stack:
            place = settings.listen.host, settings.listen.port
            idle = [stack.enter_context(socket.create_connection(place, 5)) for _ in range(IDLE)]
            await asyncio.sleep(13)
            assert agent.returncode is None
            assert await describe(settings, 5) == "worker:0"
            for connection in idle:
                connection.setblocking(False)
                assert connection.recv(1) == b""
    assert agent.returncode == 0
