"""Choice of who tries to reach whom, in small clusters and large ones."""

from __future__ import annotations

import random

import pytest
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.task import Role, Task
from tfscale.core.preflight.examination import MOST_TASKS
from tfscale.core.preflight.mesh import MOST_TRANSFERS, SAMPLED, mesh_of, transfers_of


def workers(count: int, a_host: int = 1) -> ClusterSpec:
    """Return a cluster of so many workers, some on each host."""
    tasks = {
        Task(Role.WORKER, index): Address(f"host-{index // a_host}", 2222 + index % a_host) for index in range(count)
    }
    return ClusterSpec("test", tasks, tasks)


@pytest.mark.parametrize(("count", "a_host"), [(1, 1), (2, 1), (8, 2), (64, 1)])
def test_a_small_cluster_is_tried_as_a_whole_but_no_host_by_itself(count: int, a_host: int) -> None:
    spec = workers(count, a_host)
    mesh = mesh_of(spec, random.Random(1))
    assert mesh.left_out == 0
    assert sum(map(len, mesh.targets.values())) == count * (count - a_host)
    assert all(spec.tasks[task].host != spec.tasks[other].host for task in mesh.targets for other in mesh.targets[task])


@pytest.mark.parametrize(("count", "a_host"), [(65, 1), (1000, 1), (1000, 8), (128, 64)])
def test_of_a_large_one_each_tries_the_next_the_lead_and_some(count: int, a_host: int) -> None:
    spec = workers(count, a_host)
    mesh = mesh_of(spec, random.Random(1))
    tasks = list(spec.tasks)
    for position, task in enumerate(tasks):
        tried = mesh.targets[task]
        assert len(set(tried)) == len(tried) <= min(SAMPLED + 2, MOST_TASKS)
        assert all(spec.tasks[other].host != spec.tasks[task].host for other in tried)
        if spec.tasks[task].host != spec.tasks[tasks[0]].host:
            assert tasks[0] in tried
        following = tasks[(position + 1) % count]
        if spec.tasks[following].host != spec.tasks[task].host:
            assert following in tried
    assert mesh.left_out == count * (count - a_host) - sum(map(len, mesh.targets.values()))


def test_bandwidth_is_measured_around_the_ring_of_hosts_and_in_part_of_a_large_one() -> None:
    assert transfers_of(workers(1), random.Random(1)) == []
    first, second = workers(2).tasks
    assert transfers_of(workers(2), random.Random(1)) == [(first, second), (second, first)]
    assert len(transfers_of(workers(8, a_host=2), random.Random(1))) == 4
    assert len(transfers_of(workers(1000), random.Random(1))) == MOST_TRANSFERS
