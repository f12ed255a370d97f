"""The cluster as any one agent describes it, or one line that says why it cannot."""

from __future__ import annotations

import pytest
from fake_agent import FakeCluster
from tfscale.console.sources.cluster_finder import ask_agent
from tfscale.console.transport.channels import CommandError
from tfscale.core.cluster.cluster_spec import Address, ClusterError


async def test_one_agent_tells_the_whole_cluster() -> None:
    async with FakeCluster(3) as cluster:
        for address in cluster.spec.agents.values():
            spec = await ask_agent(address, None, insecure=False)
            assert spec.agents == cluster.spec.agents and spec.name == "fake"


async def test_an_agent_that_cannot_tell_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match=r"--agent 127.0.0.1:1: connection refused; is tfscale-agent running there"):
        await ask_agent(Address("127.0.0.1", 1), None, insecure=False)
    async with FakeCluster(1) as cluster:
        (agent,) = cluster.agents.values()
        described = agent._description()
        described.cluster = "{}"
        monkeypatch.setattr(agent, "_description", lambda: described)
        with pytest.raises(ClusterError, match=r"the agent at 127\.0\.0\.1"):
            await ask_agent(Address("127.0.0.1", agent.port), None, insecure=False)
