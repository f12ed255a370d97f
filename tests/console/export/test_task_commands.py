"""Commands for one task without a screen."""

from __future__ import annotations

import fakes
import pytest
from tfscale.console.export.task_commands import carry_out, restart_without, run_task_command
from tfscale.console.settings.config import Settings
from tfscale.console.sources.source_factory import ClusterConnection
from tfscale.core.access.orders import ORDERS
from tfscale.core.errors import UsageError


def connection() -> ClusterConnection:
    return ClusterConnection(fakes.ScriptedSource(fakes.spec(2)), fakes.FakeCommands())


async def test_results_go_to_stdout_and_progress_to_the_log(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert await run_task_command("stack", "worker:0", Settings(), connection()) == 0
    assert capsys.readouterr().out.startswith("Main thread")
    caplog.clear()
    assert await run_task_command("restart", "worker:0", Settings(yes=True), connection()) == 0
    assert capsys.readouterr().out == "" and len(caplog.records) == 5


async def test_an_order_needs_a_yes_and_a_task_of_the_cluster() -> None:
    with pytest.raises(UsageError, match="add --yes"):
        await run_task_command("restart", "worker:0", Settings(), connection())
    with pytest.raises(UsageError, match=r"there is no worker:7 in the cluster: it has worker:0 and 1$"):
        await run_task_command("stack", "worker:7", Settings(), connection())
    with pytest.raises(UsageError, match=r"unknown role 'wroker': .*; did you mean worker:1\?$"):
        await run_task_command("stack", "wroker:1", Settings(), connection())


async def test_an_order_to_a_task_has_the_task_and_an_argument() -> None:
    commands = fakes.FakeCommands()
    there = ClusterConnection(fakes.ScriptedSource(fakes.spec(2)), commands)
    with pytest.raises(UsageError, match="there is no worker:7"):
        await carry_out(ORDERS["signal"], ["worker:7", "USR1"], there)
    assert await carry_out(ORDERS["signal"], ["worker:1", "USR1"], there) == 0
    assert commands.carried_out == [("signal", fakes.worker(1), "USR1")]


async def test_a_restart_without_a_host_needs_a_yes_and_tells_where_its_tasks_go(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    commands = fakes.FakeCommands()
    there = ClusterConnection(fakes.ScriptedSource(fakes.spec(2)), commands)
    with pytest.raises(UsageError, match="add --yes"):
        await restart_without("host-b", Settings(), there)
    assert await restart_without("host-b", Settings(yes=True), there) == 0
    assert "worker:1 to host-c" in caplog.text
    assert await carry_out(ORDERS["uncordon"], ["host-b"], there) == 0
    assert (commands.without, commands.carried_out) == (["host-b"], [("uncordon", None, "host-b")])
    assert "host-b is done" in caplog.text
