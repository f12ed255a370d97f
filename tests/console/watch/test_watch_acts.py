"""A watch carries out the cluster's policy about slow workers, unless it only looks."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest
from fake_agent import FakeAgent, FakeCluster
from tfscale.console.analysis.restarts.worth_restarting import LASTS
from tfscale.core.cluster.task import Task
from tfscale.v1 import agent_pb2

LEAD, SLOW = Task.parse("worker:0"), Task.parse("worker:1")

_HEALTHY = 15.0
"""Seconds of training before the worker is slow: what a restart would gain is known by them."""


class _WithPolicy(FakeAgent):
    """Agent whose cluster file has `on_straggler = "restart"`."""

    def _description(self) -> agent_pb2.Description:
        description = super()._description()
        description.on_straggler = "restart"
        return description


async def watched(folder: Path, *flags: str) -> tuple[FakeCluster, str]:
    """Return a cluster with a slow worker after it was watched for the policy's time, and what the watch has said."""
    cluster = FakeCluster(3)
    cluster.agents = {task: _WithPolicy(cluster, task) for task in cluster.tasks}
    folder.mkdir()  # noqa: ASYNC240 - before anything runs
    async with cluster:
        (folder / "cluster.toml").write_text(cluster.cluster_file())
        playing = asyncio.create_task(cluster.play())
        command = ["watch", "--cluster", folder / "cluster.toml", "--runs", folder / "runs", *flags]
        watch = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tfscale.console.cli", *command, stderr=asyncio.subprocess.PIPE
        )
        await asyncio.sleep(_HEALTHY)
        cluster.tasks[SLOW].slow["compute"] = 0.06
        end = time.monotonic() + LASTS + 60
        while time.monotonic() < end and not cluster.agents[LEAD].requests:
            cluster.saved = time.time()
            await asyncio.sleep(1)
        await asyncio.sleep(3)
        watch.terminate()
        _, said = await watch.communicate()
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
    return cluster, said.decode()


@pytest.mark.slow
async def test_a_slow_worker_is_restarted_by_the_policy_and_by_no_watch_that_only_looks(tmp_path: Path) -> None:
    (acting, said), (left, told) = await asyncio.gather(
        watched(tmp_path / "acts"), watched(tmp_path / "looks", "--read-only")
    )
    assert [request.by_policy.on_straggler for request in acting.agents[LEAD].requests] == ["restart"]
    assert "restart planned, generation 2" in said
    assert not left.agents[LEAD].requests
    assert "this console only looks (--read-only)" in told
