"""Ways to agents that cannot be dialled, and what is told where there is none."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import fakes
import pytest
from fake_agent import FakeCluster
from loopback import free_addresses
from tfscale.console.transport.channels import Channels
from tfscale.console.transport.commands import AgentCommands, CommandError
from tfscale.core.cluster.cluster_spec import ClusterSpec, parse_address
from tfscale.v1 import agent_pb2

W0, W1 = fakes.worker(0), fakes.worker(1)


def with_absent_agent(spec: ClusterSpec) -> ClusterSpec:
    """Return the cluster with an address for worker:1 at which nobody listens."""
    return replace(spec, agents={**spec.agents, W1: parse_address(next(free_addresses(1)))})


async def test_an_older_agent_that_relays_nothing_is_named_where_it_is_the_only_way() -> None:
    async with FakeCluster(2) as cluster:
        spec = with_absent_agent(cluster.spec)
        entry = spec.agents[W0]
        channels = Channels(spec, entry=entry)
        await channels.find_way(W1)
        with pytest.raises(CommandError) as caught:
            await AgentCommands(channels).stack(W1)
        await channels.close()
    assert f"{entry} is of a version that does not relay: update it" in str(caught.value)


async def test_without_a_named_agent_the_fault_of_an_absent_one_stays_its_own() -> None:
    async with FakeCluster(2) as cluster:
        channels = Channels(with_absent_agent(cluster.spec))
        assert channels.heard(W0) == ""
        assert await channels.lost(W1), "worker:0 may relay"
        await channels.find_way(W1)
        assert not await channels.lost(W1), "it does not"
        with pytest.raises(CommandError, match="connection refused; is tfscale-agent running there"):
            await AgentCommands(channels).stack(W1)
        await channels.close()


async def test_an_agent_that_can_be_dialled_is() -> None:
    async with FakeCluster(3) as cluster:
        channels = Channels(cluster.spec, entry=cluster.spec.agents[W0])
        await asyncio.gather(*map(channels.find_way, cluster.spec.agents))
        assert (await channels.stub(W1).Describe(agent_pb2.DescribeRequest(), timeout=60)).task == "worker:1"
        assert channels.heard(W1) == ""
        await channels.close()
