"""A short soak with the deeds of the day, and the deeds themselves."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import net_hosts
import pytest

from soak.census import Taken, grown
from soak.deeds import WEIGHTS, deeds, steady_seat
from soak.soak import soak

TASKS = ["worker:0", "worker:1", "worker:2"]
SEATS = [*TASKS, "spare:0"]
SECONDS = 150.0


@pytest.mark.alone
@pytest.mark.matrix
@pytest.mark.skipif(bool(net_hosts.missing()), reason=net_hosts.missing())
def test_a_cluster_is_as_before_after_the_deeds_of_the_day(tmp_path: Path) -> None:
    assert soak(tmp_path, SECONDS, datetime.now(UTC).toordinal(), print) == []


def test_a_seed_gives_the_same_deeds_and_no_other_one_does() -> None:
    first, second, other = ([*deeds(seed, 3, TASKS, SEATS)] for seed in (7, 7, 8))
    assert first == second != other
    assert first != [*deeds(7, 4, TASKS, SEATS)]


def test_all_deeds_are_done_and_none_ends_the_steady_agent() -> None:
    steady = steady_seat(7, SEATS)
    done = Counter((deed.name, deed.subject) for number in range(200) for deed in deeds(7, number, TASKS, SEATS))
    assert {name for name, _ in done} == {*WEIGHTS}
    ends = (
        "kill the agent of",
        "kill agent and shim of",
        "lose the host of",
        "upgrade the agent of",
        "end the agent of",
    )
    assert not any(done[name, steady] for name in ends)


def test_what_has_grown_is_named() -> None:
    first = {
        "agent of a": Taken(1, 12, 40, 50.0),
        "agent of b": Taken(2, 9, 14, 50.0),
        "console": Taken(3, 9, 16, 70.0),
    }
    last = {
        "agent of a": Taken(1, 14, 47, 60.0),
        "agent of b": Taken(4, 12, 40, 50.0),
        "console": Taken(3, 9, 16, 70.0),
    }
    assert [*grown(first, last)] == []
    assert len([*grown(first, {**last, "agent of b": Taken(4, 16, 49, 90.0)})]) == 3
    assert len([*grown(first, {**last, "console": Taken(3, 9, 30, 70.0)})]) == 1
