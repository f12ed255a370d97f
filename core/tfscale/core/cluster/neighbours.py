"""Hosts whose agents greet each other: a few near ones each, in a ring of all hosts in the cluster's order."""

from __future__ import annotations

from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Task

AHEAD, BEHIND = 2, 1
"""Hosts after the own one in the ring, and before it, that are greeted: those with which gradients are exchanged, and
one more, so that a host is heard by others than its neighbours in the ring."""


def host_speakers(spec: ClusterSpec) -> dict[str, Task]:
    """Return the first task of each host: its agent answers for the host."""
    speakers: dict[str, Task] = {}
    for task, address in spec.agents.items():
        speakers.setdefault(address.host, task)
    return speakers


def neighbours(spec: ClusterSpec, own: Task) -> list[Task]:
    """Return the tasks whose agents are greeted by that of `own`; none where all agents are on one host."""
    speakers, here = host_speakers(spec), spec.agents[own].host
    ring = list(speakers)
    place = ring.index(here)
    near = [ring[(place + step) % len(ring)] for step in (*range(1, AHEAD + 1), *range(-BEHIND, 0))]
    return [speakers[host] for host in dict.fromkeys(near) if host != here]
