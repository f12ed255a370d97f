"""Servers of which one moves most: from what the chief has counted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tfscale.console.analysis.network.uneven_servers import server_exchange, uneven_servers
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.records.step_batch import Coordinator, ServerTraffic, WorkerFunctions

View = Callable[..., ObservedTask]
MB = 1_000_000


def cluster(view: View, *moved: int, functions: int = 100) -> list[ObservedTask]:
    """Return a cluster whose two workers have each exchanged so many bytes with each server, half in each direction."""
    traffic = tuple(ServerTraffic(f"ps:{index}", each // 2, each // 2) for index, each in enumerate(moved) if each)
    workers = tuple(WorkerFunctions(f"worker:{index}", functions, 0, 1.0, 0.0, traffic=traffic) for index in range(2))
    chief = view("chief:0", coordinator=Coordinator(100.0, 0, 0.0, None, workers))
    return [chief, view("worker:0"), view("worker:1"), *(view(f"ps:{index}") for index in range(len(moved)))]


def test_the_server_that_moves_most_is_told_with_its_share_and_the_bytes_of_a_step(view: View) -> None:
    (told,) = uneven_servers(cluster(view, 6660 * MB, 10 * MB))
    assert (told.kind, told.subject, told.severity) == ("uneven_servers", "ps:0", "info")
    assert told.sentence == (
        "ps:0 moves 99.9% of the 66.7 MB that workers exchange with 2 servers in a step; spread evenly it would be 50%"
    )


def test_a_server_without_any_variable_counts(view: View) -> None:
    (told,) = uneven_servers(cluster(view, 0, 0, 300 * MB))
    assert told.subject == "ps:2" and "moves all of the 3.00 MB that workers exchange with 3 servers" in told.sentence


@pytest.mark.parametrize(
    ("moved", "functions"),
    [
        ((74 * MB, 26 * MB), 100),
        ((100 * MB,), 100),
        ((5 * MB, 0), 100),
        ((100 * MB, 0), 9),
        ((0, 0), 100),
    ],
    ids=["nearly even", "one server", "few bytes", "too early", "nothing counted"],
)
def test_nothing_is_said_where_it_costs_nothing_or_is_not_known(
    view: View, moved: tuple[int, ...], functions: int
) -> None:
    assert uneven_servers(cluster(view, *moved, functions=functions)) == []


def test_without_servers_there_is_no_exchange(view: View) -> None:
    assert server_exchange([view("worker:0"), view("worker:1")]) is None
