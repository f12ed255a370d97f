"""Hosts whose agents greet each other: the next and the previous one in a ring of all hosts, in the cluster's order.

With these two, gradients are exchanged in a ring all-reduce. A greeting takes 0.7 ms of CPU on either side.
"""

from __future__ import annotations

from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Task


def host_speakers(spec: ClusterSpec) -> dict[str, Task]:
    """Return the first task of each host: its agent answers for the host."""
    speakers: dict[str, Task] = {}
    for task, address in spec.agents.items():
        speakers.setdefault(address.host, task)
    return speakers


def neighbours(spec: ClusterSpec, own: Task) -> list[Task]:
    """Return the tasks whose agents the agent of `own` greets; none if all agents are on one host."""
    speakers, here = host_speakers(spec), spec.agents[own].host
    ring = list(speakers)
    place = ring.index(here)
    near = dict.fromkeys([ring[(place + 1) % len(ring)], ring[place - 1]])
    return [speakers[host] for host in near if host != here]
