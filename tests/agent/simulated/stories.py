"""Known faults, each as a story: what happens to a cluster that trains, at times that a seed varies.

They are those that broke the agents while the lowest of them decided by its own journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from simulated.simulated_agents import Cluster, Host, Story
from tfscale.core.cluster.recovery_policy import RestartPolicy
from tfscale.core.cluster.task import Role
from tfscale.core.records.task_status import Stage

_MENDED = 40.0
"""Seconds after the last fault in which a gang must train: `replace_after` of 10 s, and 30 s."""


_MISSED = 20.0
"""Seconds of silence more, after which an agent is missed from which a command waits for an answer."""


@dataclass(frozen=True)
class Known:
    """Story, and the recovery policy of its cluster where that is not the usual one."""

    story: Story
    policy: Mapping[str, Any] = field(default_factory=dict)


async def _begun(cluster: Cluster) -> None:
    cluster.network.is_well = True  # but for the faults of the story
    await cluster.until(cluster.trains, what="the gang trains")
    await asyncio.sleep(cluster.random.uniform(3, 8))


async def _mended(cluster: Cluster, within: float = _MENDED) -> None:
    await asyncio.sleep(2)
    await cluster.until(cluster.trains, within, "the gang trains again")


async def _amid_a_restart(cluster: Cluster, asked: Host, by_operator: bool) -> None:
    """Begin a restart, and return at one of its stages."""
    if by_operator:
        cluster.begin_order("restart", ["worker:0"], asked=asked)
    else:
        cluster.fail_task("worker:1")
    stage = cluster.random.choice([Stage.STOPPING, Stage.STOPPED, Stage.STARTING, Stage.RUNNING])
    generation = cluster.generation
    await cluster.until(lambda: cluster.generation > generation and cluster.stage() is stage, 30, glance=0.005)


async def lead_dies_in_a_restart(cluster: Cluster) -> None:
    """Lose the lead's host for good amid a restart."""
    await _begun(cluster)
    await _amid_a_restart(cluster, cluster.hosts["h1"], cluster.random.random() < 0.5)
    await cluster.hosts["h0"].lose()
    await _mended(cluster, _MENDED + _MISSED)


async def peer_dies_in_a_restart(cluster: Cluster) -> None:
    """Lose another host for good amid an operator's restart."""
    await _begun(cluster)
    await _amid_a_restart(cluster, cluster.hosts["h0"], by_operator=True)
    await cluster.hosts["h2"].lose()
    await _mended(cluster, _MENDED + _MISSED)


async def order_without_the_lead(cluster: Cluster) -> None:
    """Lose the lead's host where nothing is restarted unasked, and give the order to another agent."""
    await _begun(cluster)
    await cluster.hosts["h0"].lose()
    await asyncio.sleep(cluster.random.uniform(1, 20))
    order = await cluster.order("restart", without=["h0"], asked=cluster.hosts["h1"])
    if order.done is None:
        cluster.history.note(f"the order was not carried out: {order.words}")
    await _mended(cluster)


async def order_while_the_lead_is_away(cluster: Cluster) -> None:
    """Give an order to another agent while the lead's is started again, or while these two are cut off for a while."""
    await _begun(cluster)
    lead, asked = cluster.hosts["h0"], cluster.hosts[cluster.random.choice(["h1", "h2"])]
    away, loop = cluster.random.uniform(0.5, 12), asyncio.get_running_loop()
    if cluster.random.random() < 0.5:
        await lead.kill()
        loop.call_later(away, lead.begin)
    else:
        cluster.network.cut = {frozenset((lead.name, asked.name))}
        loop.call_later(away, cluster.network.cut.clear)
    await asyncio.sleep(cluster.random.uniform(0, away))
    order = await cluster.order("restart", ["worker:1"], asked=asked)
    if order.done is None:
        cluster.history.note(f"the order was not carried out: {order.words}")
    await _mended(cluster)
    if cluster.newest_started != 2:
        cluster.history.note(f"the order was carried out {cluster.newest_started - 1} times")


async def lead_is_cut_off_in_a_restart(cluster: Cluster) -> None:
    """Cut the lead off amid a restart for so long that the others go on, and let it come back."""
    await _begun(cluster)
    await _amid_a_restart(cluster, cluster.hosts["h0"], cluster.random.random() < 0.5)
    cluster.cut_off("h0")
    cluster.processes.break_gang(cluster.generation)
    await asyncio.sleep(cluster.random.uniform(40, 90))
    cluster.network.cut = set()
    await _mended(cluster)


async def lead_is_cut_off_before_it_starts(cluster: Cluster) -> None:
    """Cut the lead off once it has stopped all tasks, before it has asked whether it may start them."""
    await _begun(cluster)
    generation = cluster.generation
    cluster.begin_order("restart", ["worker:0"], asked=cluster.hosts["h0"])
    await cluster.until(lambda: cluster.generation > generation and cluster.all_stopped(), 30, glance=0.0005)
    await cluster.apart("h0", cluster.random.uniform(60, 90))
    await _mended(cluster)


async def two_leads_and_a_witness(cluster: Cluster) -> None:
    """Cut two agents that would lead from one another, while both reach all others."""
    await _begun(cluster)
    cluster.network.cut = {frozenset(("h0", "h1"))}
    cluster.processes.break_gang(cluster.generation)
    await asyncio.sleep(cluster.random.uniform(30, 90))
    cluster.network.cut = set()
    await _mended(cluster)


async def host_boots_before_its_network(cluster: Cluster) -> None:
    """Have a role move while its host is off, and the host boot with a new disk and without its network."""
    await _begun(cluster)
    host = cluster.hosts[cluster.random.choice(["h0", "h1"])]
    await host.crash(loses_disk=True)
    await asyncio.sleep(cluster.random.uniform(5, 60))
    host.boot()
    await cluster.apart(host.name, cluster.random.uniform(30, 60))
    await _mended(cluster)


async def stop_while_a_failure_waits(cluster: Cluster) -> None:
    """Have a task fail while the lead's agent is away, and stop all once that is back."""
    await _begun(cluster)
    await cluster.hosts["h0"].kill()
    cluster.fail_task("worker:1")
    await asyncio.sleep(cluster.random.uniform(3, 12))
    cluster.hosts["h0"].begin()
    for _ in range(10):
        order = await cluster.order("stop", ["worker:0", "worker:1", "worker:2"])
        if order.done is not None:
            return
        await asyncio.sleep(1)


async def stop_then_a_lost_disk(cluster: Cluster) -> None:
    """Stop all, and lose a disk: its agent must not take the stopped task for one that never ran."""
    await _begun(cluster)
    await cluster.order("stop", ["worker:0", "worker:1", "worker:2"])
    host = cluster.hosts[cluster.random.choice(["h0", "h1", "h2"])]
    await host.crash(loses_disk=True)
    await asyncio.sleep(3)
    host.boot()


async def spare_with_a_full_disk(cluster: Cluster) -> None:
    """Lose a host while the spare's disk is full, and give the disk room later."""
    await _begun(cluster)
    cluster.disks.full.add("spare")
    await cluster.hosts["h1"].lose()
    await asyncio.sleep(cluster.random.uniform(20, 60))
    cluster.disks.full.clear()
    await _mended(cluster)


async def host_that_flaps(cluster: Cluster, name: str = "h2") -> None:
    """Have a host die 10 s after each return, where no spare is left and two workers may go on."""
    await _begun(cluster)
    await cluster.hosts["spare"].lose()
    host = cluster.hosts[name]
    for _ in range(6):
        await host.crash()
        await asyncio.sleep(cluster.random.uniform(25, 40))
        host.boot()
        await asyncio.sleep(10)
    await host.lose()
    await _mended(cluster)


async def leads_host_flaps(cluster: Cluster) -> None:
    """Have the lead's host die 10 s after each return."""
    await host_that_flaps(cluster, "h0")


async def lead_moves_to_an_agent_that_is_not_told(cluster: Cluster) -> None:
    """Lose the lead's host, and cut the spare off in the moment in which it is to take the task."""
    await _begun(cluster)
    await cluster.hosts["h0"].lose()
    await cluster.until(lambda: cluster.stage() in (Stage.STOPPING, Stage.STOPPED), 60, glance=0.005)
    cluster.cut_off("spare")
    await asyncio.sleep(cluster.random.uniform(2, 15))
    cluster.network.cut = set()
    await _mended(cluster)


_BY_HOST = {"max_restarts": 1, "cordon_after": 3, "min_workers": 2}
"""Policy by which more restarts follow than `max_restarts` where one host is the cause of them."""

STORIES: dict[str, Known] = {
    "lead dies in a restart": Known(lead_dies_in_a_restart),
    "peer dies in a restart": Known(peer_dies_in_a_restart),
    "order without the lead": Known(order_without_the_lead, {"by_role": dict.fromkeys(Role, RestartPolicy.NEVER)}),
    "order while the lead is away": Known(order_while_the_lead_is_away),
    "lead cut off in a restart": Known(lead_is_cut_off_in_a_restart),
    "lead cut off before it starts": Known(lead_is_cut_off_before_it_starts),
    "two leads and a witness": Known(two_leads_and_a_witness),
    "host boots before its network": Known(host_boots_before_its_network),
    "stop while a failure waits": Known(stop_while_a_failure_waits),
    "stop, then a lost disk": Known(stop_then_a_lost_disk),
    "spare with a full disk": Known(spare_with_a_full_disk),
    "host that flaps": Known(host_that_flaps, _BY_HOST),
    "lead's host flaps": Known(leads_host_flaps, _BY_HOST),
    "lead moves to an agent that is not told": Known(lead_moves_to_an_agent_that_is_not_told),
}
"""Stories by their names."""
