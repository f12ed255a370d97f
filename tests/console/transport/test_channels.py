"""Channels: the agents that may be dialled, and with which credentials."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import fakes
import pytest
from certificates import Issuer
from fake_agent import FakeCluster
from tfscale.console.transport.channels import Channels
from tfscale.core.access.caller_role import CallerRole
from tfscale.core.access.certificate import SecurityError
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec, Tls
from tfscale.core.cluster.placement.placement import Placement
from tfscale.core.cluster.task import Task
from tfscale.v1 import agent_pb2


async def test_insecure_means_plain_text_although_the_file_has_tls() -> None:
    nowhere = Path("/nonexistent")
    async with FakeCluster(1) as cluster:
        channels = Channels(replace(cluster.spec, tls=Tls(nowhere, nowhere, nowhere)), insecure=True)
        description = await channels.stub(cluster.spec.lead).Describe(agent_pb2.DescribeRequest(), timeout=60)
        await channels.close()
    assert description.run == "fake"


def test_an_agent_that_may_not_be_dialled_is_named_before_any_is(tmp_path: Path) -> None:
    task, beyond = Task.parse("worker:0"), Address("10.0.0.2", 7070)
    spec = ClusterSpec("open", {task: beyond}, {task: beyond})
    with pytest.raises(SecurityError, match=r"10\.0\.0\.2:7070 is not a loopback address: give \[tls\]"):
        Channels(spec)
    text = tmp_path / "text.pem"
    text.write_text("hello")
    with pytest.raises(SecurityError, match=r"\[tls\] ca: .*text.pem is not a PEM file"):
        Channels(replace(spec, tls=Tls(text, text, text)))


def test_a_certificate_of_the_console_that_ends_soon_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    task, address, issuer = Task.parse("worker:0"), Address("127.0.0.1", 1), Issuer(tmp_path / "own")
    for days in (13, 15):
        tls = issuer.tls("ann", CallerRole.OPERATOR, [], days=days)
        Channels(ClusterSpec("test", {task: address}, {task: address}, tls=tls))
    assert [" expires on " in record.getMessage() for record in caplog.records] == [True]
    tls = issuer.tls("ann", CallerRole.OPERATOR, [], begins=timedelta(days=-3), days=1)
    with pytest.raises(SecurityError, match="expired on"):
        Channels(ClusterSpec("test", {task: address}, {task: address}, tls=tls))


async def test_a_task_is_dialled_where_the_newest_placement_has_it() -> None:
    spec = replace(fakes.spec(2), spares={Address("host-c", 7070): Address("host-c", 2222)})
    first, second = spec.tasks
    channels = Channels(spec, insecure=True)
    channels.stub(second)
    moved = Placement(3, {first: spec.agents[first], second: Address("host-c", 7070)})
    channels.follow(moved.to_json())
    channels.follow(Placement(2, spec.agents).to_json())  # of an agent that has not heard yet
    channels.follow("{")
    assert [str(channels.address(task)) for task in (first, second)] == [str(spec.agents[first]), "host-c:7070"]
    assert second not in channels._stubs
    await channels.close()


@pytest.mark.parametrize(
    ("role", "why"),
    [
        (CallerRole.OBSERVER, "its certificate is that of an observer, which gives no orders"),
        (None, "its certificate has no role, which gives no orders"),
        (CallerRole.OPERATOR, ""),
        (CallerRole.AGENT, ""),
    ],
)
async def test_a_console_knows_by_its_certificate_whether_it_may_order(
    tmp_path: Path, role: CallerRole | None, why: str
) -> None:
    issuer, task = Issuer(tmp_path / "ca"), Task.parse("worker:0")
    tls = issuer.tls("eve", role) if role else issuer.without_role("eve")
    spec = ClusterSpec("test", {task: Address("127.0.0.1", 7000)}, {task: Address("127.0.0.1", 7070)}, tls=tls)
    channels = Channels(spec)
    free = Channels(replace(spec, tls=replace(tls, has_roles=False)))
    assert (channels.why_no_order(), free.why_no_order(), Channels(spec, insecure=True).why_no_order()) == (why, "", "")
    for each in (channels, free):
        await each.close()
