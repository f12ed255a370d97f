"""Hosts of a cluster file that are this machine."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from tfscale.agent.host import host_names
from tfscale.agent.host.host_names import own_hosts, refuse_two_names
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.errors import UsageError
from tfscale.core.preflight.examination import ResolvedName

OTHER = "198.51.100.7"
"""Address that no machine has [RFC 5737]."""


def cluster(*hosts: str) -> ClusterSpec:
    shown = [f"[{host}]" if ":" in host else host for host in hosts]
    document = {"cluster": {"worker": [f"{host}:2222" for host in shown]}}
    return parse_cluster(document, name="x", where="x", base=Path())


def names(monkeypatch: pytest.MonkeyPatch, own: str) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: own)


@pytest.mark.parametrize(
    ("own", "hosts", "found"),
    [
        ("machine-a", ["machine-a", "machine-b"], {"machine-a"}),
        ("Machine-A", ["machine-a", "machine-b"], {"machine-a"}),
        ("machine-a.example.org", ["machine-a", "machine-b"], {"machine-a"}),
        ("machine-a.example.org", ["machine-a.example.org.", "machine-b"], {"machine-a.example.org."}),
        ("machine-a", ["machine-a", "127.0.0.3", OTHER], {"machine-a", "127.0.0.3"}),
        ("machine-a", [OTHER, "::1"], {"::1"}),
        ("machine-a", [OTHER], set()),
    ],
)
def test_a_host_is_known_by_name_and_by_address(
    own: str, hosts: Sequence[str], found: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names(monkeypatch, own)
    assert own_hosts(cluster(*hosts)) == found


def test_the_addresses_of_all_interfaces_are_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    names(monkeypatch, "machine-a")
    every = [at.address.partition("%")[0] for found in psutil.net_if_addrs().values() for at in found]
    addresses = [at for at in every if _is_address(at)]
    assert addresses and own_hosts(cluster(OTHER, *addresses)) == set(addresses)


def test_a_name_is_looked_up_only_where_no_other_is_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []
    found = {"alias": "127.0.1.1", "stranger": OTHER}

    async def resolved(spec: ClusterSpec) -> tuple[ResolvedName, ...]:
        hosts = [address.host for address in spec.tasks.values() if not _is_address(address.host)]
        looked_up.extend(hosts)
        return tuple(ResolvedName(host, (found[host],) if host in found else ()) for host in hosts)

    monkeypatch.setattr(host_names, "resolved_names", resolved)
    names(monkeypatch, "machine-a")
    assert own_hosts(cluster("machine-a", "alias")) == {"machine-a"} and not looked_up
    assert own_hosts(cluster("stranger", "alias", "nowhere")) == {"alias"}
    assert set(looked_up) == {"stranger", "alias", "nowhere"}


def test_one_address_of_this_host_by_two_names_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    names(monkeypatch, "machine-a.example.org")
    (address, *_) = [
        at.address for found in psutil.net_if_addrs().values() for at in found if _is_distant(at.address)
    ] or [OTHER]
    for pair in (["machine-a", "machine-a.example.org"], ["Machine-A", "localhost"], ["machine-a", address]):
        if pair[1] != OTHER:
            with pytest.raises(
                UsageError, match=r"^a.toml: .*:2222 are one address of this host: each task needs its own"
            ):
                refuse_two_names(cluster(*pair), "a.toml")
    for pair in (["machine-a", "machine-b"], ["machine-a", OTHER], ["127.0.0.1", "127.0.0.2"]):
        refuse_two_names(cluster(*pair), "a.toml")


def _is_distant(host: str) -> bool:
    return _is_address(host) and not ipaddress.ip_address(host).is_loopback


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
