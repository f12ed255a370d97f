"""Working folder of an agent that is removed while its task runs, and made anew at its path, as `git clone` does it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import grpc.aio
import pytest
from running_agents import W0, agent, command, named, runs, says, stub
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.v1 import agent_pb2

Project = Callable[[str], None]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a function that makes the project's folder anew, with a program that says a word."""
    folder = tmp_path / "project"

    def make(word: str) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "source").mkdir(parents=True)
        program = f"import os, time; print({word!r}, 'in', os.getcwd(), flush=True); time.sleep(60)"
        (folder / "train.py").write_text(program)
        (folder / "source" / "train.py").write_text(program)

    return make


@pytest.fixture(params=[None, "source"], ids=["working folder", "a folder in it"])
def settings(
    request: pytest.FixtureRequest,
    project: Project,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make_cluster: Callable[[int], ClusterSpec],
    make_settings: Callable[..., AgentSettings],
) -> AgentSettings:
    project("old")
    monkeypatch.chdir(tmp_path / "project")
    cluster = make_cluster(1)
    cluster = replace(cluster, program=replace(cluster.program, directory=request.param))
    return make_settings(cluster, W0, command=(sys.executable, "train.py"))


async def test_a_folder_that_was_made_anew_is_the_one_in_which_the_task_starts(
    settings: AgentSettings, project: Project
) -> None:
    folder = Path.cwd() / (settings.cluster.program.directory or "")
    async with agent(settings):
        await says(settings, f"old in {folder}")
        project("new")
        async with stub(settings) as service:
            assert (await service.Describe(agent_pb2.DescribeRequest())).directory == str(folder)
        progress = await command(settings, "Restart", "worker:0")
        assert progress[-1].stage == agent_pb2.STAGE_DONE, progress[-1]
        await says(settings, f"new in {folder}")


async def test_a_folder_that_is_gone_has_a_restart_refused_before_anything_is_stopped(
    settings: AgentSettings, tmp_path: Path
) -> None:
    async with agent(settings):
        await says(settings, "old in")  # it has read its program
        before = await runs(settings)
        (tmp_path / "project").rename(tmp_path / "away")
        shutil.rmtree(tmp_path / "away")
        removed = "nothing was stopped.*project': the working folder was removed: make it anew there"
        with pytest.raises(grpc.aio.AioRpcError, match=removed):
            await command(settings, "Restart", "worker:0")
        async with stub(settings) as service:
            await service.Describe(agent_pb2.DescribeRequest(to=named(settings)))
        assert await runs(settings) == before


async def test_a_folder_that_was_renamed_is_as_good_as_before(settings: AgentSettings, tmp_path: Path) -> None:
    async with agent(settings):
        await runs(settings)
        (tmp_path / "project").rename(tmp_path / "renamed")
        progress = await command(settings, "Restart", "worker:0")
        assert progress[-1].stage == agent_pb2.STAGE_DONE, progress[-1]
        await says(settings, f"old in {tmp_path / 'renamed'}")
