"""Placement of the tasks of the next generation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec, parse_address
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.placement.place_rule import moves, place_tasks, seats_on
from tfscale.core.cluster.placement.placement import (
    Placement,
    PlacementError,
    file_placement,
    seats_of,
    why_not_whole,
)

HOSTS = ("a", "b", "c", "d")


def cluster(spares: str = "", **roles: Any) -> ClusterSpec:
    tasks = roles or {"worker": [f"{host}:2222" for host in HOSTS]}
    document = {"cluster": tasks} | ({"spares": {"agents": [f"{host}:7070" for host in spares]}} if spares else {})
    return parse_cluster(document, name="t", where="t", base=Path())


def seats(hosts: str) -> set[Address]:
    return {parse_address(f"{host}:7070") for host in hosts}


def place(spec: ClusterSpec, usable: str, fewest: int | None = None, now: Placement | None = None) -> str:
    placed = place_tasks(spec, now or file_placement(spec), seats(usable), fewest)
    return " ".join(f"{task}={seat.host}" for task, seat in placed.items())


def placed(spec: ClusterSpec, usable: str, fewest: int | None = None, now: Placement | None = None) -> Placement:
    return Placement(2, place_tasks(spec, now or file_placement(spec), seats(usable), fewest))


def test_all_stay_where_they_are_while_all_answer() -> None:
    assert place(cluster("s"), "abcds") == "worker:0=a worker:1=b worker:2=c worker:3=d"


def test_a_spare_takes_the_task_of_a_host_that_is_gone() -> None:
    assert place(cluster("st"), "acdst") == "worker:0=a worker:1=s worker:2=c worker:3=d"
    assert place(cluster("st"), "acst") == "worker:0=a worker:1=s worker:2=c worker:3=t"
    assert place(cluster("st"), "acdt") == "worker:0=a worker:1=t worker:2=c worker:3=d"


def test_a_host_that_is_back_waits_as_a_spare_while_all_tasks_have_a_place() -> None:
    spec = cluster("s")
    now = placed(spec, "acds")
    assert place(spec, "abcds", now=now) == "worker:0=a worker:1=s worker:2=c worker:3=d"
    assert place(spec, "abcd", now=now) == "worker:0=a worker:1=b worker:2=c worker:3=d"
    assert place(spec, "bcds", now=now) == "worker:0=b worker:1=s worker:2=c worker:3=d"


def test_without_a_spare_the_last_worker_takes_the_place_and_the_gang_is_smaller() -> None:
    spec = cluster()
    assert place(spec, "acd", 2) == "worker:0=a worker:1=d worker:2=c"
    assert place(spec, "ad", 2) == "worker:0=a worker:1=d"
    assert place(spec, "cd", 2) == "worker:0=d worker:1=c"
    assert place(spec, "abc", 2) == "worker:0=a worker:1=b worker:2=c"


def test_it_grows_back_when_the_missing_agent_is_there_again() -> None:
    spec = cluster()
    now = placed(spec, "acd", 2)
    assert place(spec, "abcd", 2, now) == "worker:0=a worker:1=d worker:2=c worker:3=b"


def test_a_spare_is_taken_before_the_gang_becomes_smaller() -> None:
    assert place(cluster("s"), "ads", 2) == "worker:0=a worker:1=s worker:2=d"


def test_a_chief_and_servers_are_placed_on_the_hosts_of_workers() -> None:
    spec = cluster(chief=["a:1"], worker=["b:1", "c:1"], ps=["d:1"])
    assert place(spec, "bcd", 1) == "chief:0=c worker:0=b ps:0=d"
    assert place(spec, "abc", 1) == "chief:0=a worker:0=b ps:0=c"


def test_a_server_takes_the_place_of_a_worker_that_has_just_taken_one() -> None:
    spec = cluster(worker=["a:1", "b:1", "c:1", "d:1"], ps=["e:1"])
    assert place(spec, "cd", 1) == "worker:0=d ps:0=c"


def test_an_evaluator_and_a_data_service_stay_where_they_are() -> None:
    spec = cluster("s", worker=["a:1"], evaluator=["b:1"], dispatcher=["c:1"], dataworker=["d:1"])
    assert place(spec, "as") == "worker:0=a evaluator:0=b dispatcher:0=c dataworker:0=d"
    assert place(spec, "bcds") == "worker:0=s evaluator:0=b dispatcher:0=c dataworker:0=d"


@pytest.mark.parametrize(
    ("spares", "usable", "fewest", "words"),
    [
        ("", "acd", None, r"no place for worker:1: .* no \[spares\], and no min_workers"),
        ("s", "ad", None, "no place for worker:1 and worker:2: no further spare is free"),
        ("", "ab", 3, "fewer than min_workers = 3"),
        ("", "", 1, "no place for worker:0, worker:1, worker:2 and worker:3"),
    ],
)
def test_where_no_place_is_left_that_is_said(spares: str, usable: str, fewest: int | None, words: str) -> None:
    with pytest.raises(PlacementError, match=words):
        place(cluster(spares), usable, fewest)


def test_a_chief_without_a_host_is_no_reason_to_train_with_fewer_workers_than_allowed() -> None:
    with pytest.raises(PlacementError, match="chief:0"):
        place(cluster(chief=["a:1"], worker=["b:1", "c:1"]), "bc", 2)


def test_nothing_is_placed_on_a_cordoned_host() -> None:
    spec = cluster("s")
    now = Placement(1, file_placement(spec).seats, {"b": "failed 3 times within 1 h"})
    assert place(spec, "abcds", now=now) == "worker:0=a worker:1=s worker:2=c worker:3=d"
    with pytest.raises(PlacementError, match="b is cordoned: uncordon it"):
        place(spec, "abcd", now=now)


def test_whatever_answers_the_placement_is_whole() -> None:
    spec = cluster("st", chief=["z:1"], worker=["a:1", "b:1", "c:1"], ps=["d:1"])
    everyone = "zabcdst"
    for mask in range(1 << len(everyone)):
        usable = "".join(host for bit, host in enumerate(everyone) if mask >> bit & 1)
        try:
            result = place_tasks(spec, file_placement(spec), seats(usable), 1)
        except PlacementError:
            assert len(usable) < 3
            continue
        assert not why_not_whole(spec, result)
        assert len(set(result.values())) == len(result)
        assert set(result.values()) <= seats(usable)
        assert list(result) == sorted(result)


def test_a_host_is_named_as_people_do() -> None:
    spec = cluster("s")
    now = placed(spec, "acds")
    assert seats_on(spec, now, "b") == seats_on(spec, now, "b:7070") == [parse_address("b:7070")]
    assert seats_on(spec, now, "worker:1") == [parse_address("s:7070")]
    with pytest.raises(PlacementError, match="'e' is no host of the cluster: name one of a, b, c"):
        seats_on(spec, now, "e")


def test_what_changes_is_told_in_words() -> None:
    spec = cluster("s")
    one, other = placed(spec, "acds"), placed(cluster(), "acd", 2)
    assert moves(file_placement(spec).seats, one.seats) == "worker:1 to s"
    assert moves(file_placement(spec).seats, other.seats) == "worker:1 to d, worker:3 vacant"


def test_seats_are_those_of_the_tasks_and_the_spares() -> None:
    assert [str(seat) for seat in seats_of(cluster("s"))] == ["a:7070", "b:7070", "c:7070", "d:7070", "s:7070"]
