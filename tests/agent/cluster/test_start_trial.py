"""Trial of a start before a restart stops anything, by a real agent whose installation is damaged meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import grpc.aio
import pytest
from running_agents import W0, agent, command, runs
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision import shim_process
from tfscale.core.cluster.cluster_spec import ClusterSpec


@pytest.mark.parametrize("is_gone", ["the Python", "the modules"])
async def test_an_agent_whose_installation_is_gone_has_a_restart_refused_before_anything_is_stopped(
    is_gone: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make_cluster: Callable[[int], ClusterSpec],
    make_settings: Callable[..., AgentSettings],
) -> None:
    settings = make_settings(make_cluster(1), W0)
    async with agent(settings):
        before = await runs(settings)
        if is_gone == "the Python":
            monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
            why = "No such file or directory"
        else:
            monkeypatch.setattr(shim_process, "_ROOT", str(tmp_path))
            why = "ModuleNotFoundError"
        with pytest.raises(
            grpc.aio.AioRpcError, match=f"nothing was stopped.*worker:0 cannot be started: its shim.*{why}"
        ):
            await command(settings, "Restart", "worker:0")
        assert await runs(settings) == before
