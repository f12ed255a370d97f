"""Choice of the agents that vote."""

from __future__ import annotations

from pathlib import Path

import pytest
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.placement.electorate import electorate_of


def voters(hosts: str, spares: str = "") -> tuple[str, ...]:
    """Return the hosts of the voters, for workers and spares on these hosts."""
    document = {"cluster": {"worker": [f"{host}:{2000 + n}" for n, host in enumerate(hosts)]}}
    document["agents"] = {f"worker:{n}": f"{host}:{3000 + n}" for n, host in enumerate(hosts)}
    if spares:
        document["spares"] = {"agents": [f"{host}:7070" for host in spares]}
    electorate = electorate_of(parse_cluster(document, name="t", where="t", base=Path()))
    return tuple(name[0] for name in electorate.voters)


@pytest.mark.parametrize(
    ("hosts", "spares", "expected"),
    [
        ("a", "", "a"),
        ("ab", "", "ab"),
        ("abc", "", "abc"),
        ("abcd", "", "abc"),
        ("abcdefg", "", "abcde"),
        ("aabbcc", "", "abc"),
        ("ab", "xy", "abx"),
        ("a", "xyz", "axy"),
        ("abcd", "x", "abc"),
    ],
)
def test_the_hosts_of_the_tasks_vote_and_spares_where_they_are_few(hosts: str, spares: str, expected: str) -> None:
    assert "".join(voters(hosts, spares)) == expected
