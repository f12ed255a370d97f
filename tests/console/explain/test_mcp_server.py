"""`tfscale-console mcp` as a program that a language model's client starts, against fake agents over real gRPC."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fake_agent import FakeCluster
from mcp import Client, StdioServerParameters


@asynccontextmanager
async def asked(cluster: Path, *flags: str) -> AsyncIterator[Client]:
    """Run the console as a server of the official client."""
    arguments = ["-m", "tfscale.console.cli", "mcp", "--cluster", str(cluster), *flags]
    environment = {"PATH": "/usr/bin:/bin", "XDG_CONFIG_HOME": "/nonexistent", "XDG_STATE_HOME": str(cluster.parent)}
    async with Client(StdioServerParameters(command=sys.executable, args=arguments, env=environment)) as client:
        yield client


@asynccontextmanager
async def fake_cluster(folder: Path) -> AsyncIterator[Path]:
    async with FakeCluster(2, interval=0.2) as cluster:
        path = folder / "fake.toml"
        path.write_text(cluster.cluster_file())
        playing = asyncio.create_task(cluster.play())
        yield path
        playing.cancel()


async def answer(client: Client, tool: str, **arguments: Any) -> tuple[Any, str]:
    """Return the structured answer and the text of a tool."""
    result = await client.call_tool(tool, arguments)
    return result.structured_content, "".join(getattr(each, "text", "") for each in result.content)


async def test_a_model_can_ask_for_runs_state_log_and_stack(tmp_path: Path) -> None:
    async with fake_cluster(tmp_path) as path, asked(path) as client:
        tools = (await client.list_tools()).tools
        assert [each.name for each in tools] == ["runs", "state", "log", "stack"]
        assert all(each.annotations and each.annotations.read_only_hint for each in tools)
        assert client.instructions and "Begin with `state`" in client.instructions
        runs, _ = await answer(client, "runs")
        assert runs["result"] == [{"run": "fake", "tasks": ["worker:0", "worker:1"]}]
        state, _ = await answer(client, "state")
        assert state["headline"] and state["tasks"]["number"] == 2 and state["findings"] == []
        _, stack = await answer(client, "stack", task="worker:1")
        assert "Main thread" in stack and "worker:1" in stack
        _, log = await answer(client, "log", task="worker:0", lines=3)
        assert log


async def test_what_is_not_there_is_an_error_in_one_line(tmp_path: Path) -> None:
    async with fake_cluster(tmp_path) as path, asked(path) as client:
        result = await client.call_tool("log", {"task": "worker:7"})
        assert result.is_error and "there is no worker:7 in the cluster" in str(result.content)


async def test_a_read_only_console_takes_no_stacks(tmp_path: Path) -> None:
    async with fake_cluster(tmp_path) as path, asked(path, "--read-only") as client:
        assert [each.name for each in (await client.list_tools()).tools] == ["runs", "state", "log"]
