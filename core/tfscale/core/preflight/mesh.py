"""Choice of pairs for the test of connections: all pairs of a small cluster, a sample of a large one."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Task

MOST_WHOLE = 64
"""Largest number of tasks that all try to reach each other: 64 make 4032 pairs, and take three seconds at worst."""
SAMPLED = 8
"""Number of tasks that each task of a large cluster tries to reach, beside its successor and the lead."""
MOST_TRANSFERS = 32
"""Most pairs of hosts between which bandwidth is measured, each for a second, one after the other."""


@dataclass(frozen=True, slots=True)
class Mesh:
    """Tasks that each task tries to reach, all on other hosts."""

    targets: Mapping[Task, Sequence[Task]]
    left_out: int
    """Pairs that are not tried."""


def mesh_of(spec: ClusterSpec, chance: random.Random) -> Mesh:
    """Return the pairs to try: each task with all of other hosts; in large clusters with the next, lead and some."""
    tasks = list(spec.tasks)
    others = {task: [other for other in tasks if _host(spec, other) != _host(spec, task)] for task in tasks}
    if len(tasks) <= MOST_WHOLE:
        return Mesh(others, 0)
    targets = {}
    for position, task in enumerate(tasks):
        after = [other for other in tasks[position + 1 :] + tasks[:position] if _host(spec, other) != _host(spec, task)]
        near = [*after[:1], *([spec.lead] if spec.lead in after else [])]
        targets[task] = list(dict.fromkeys([*near, *chance.sample(after, min(SAMPLED, len(after)))]))
    return Mesh(targets, sum(map(len, others.values())) - sum(map(len, targets.values())))


def transfers_of(spec: ClusterSpec, chance: random.Random) -> list[tuple[Task, Task]]:
    """Return pairs of neighbours in the ring of hosts; where there are many, a sample of these pairs."""
    speakers: dict[str, Task] = {}
    for task in spec.tasks:
        speakers.setdefault(_host(spec, task), task)
    ring = list(speakers.values())
    pairs = [(task, ring[(position + 1) % len(ring)]) for position, task in enumerate(ring)] if len(ring) > 1 else []
    return pairs if len(pairs) <= MOST_TRANSFERS else sorted(chance.sample(pairs, MOST_TRANSFERS))


def _host(spec: ClusterSpec, task: Task) -> str:
    return spec.tasks[task].host
