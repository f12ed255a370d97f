"""Addresses of a cluster spec."""

from __future__ import annotations

import pytest
from tfscale.core.cluster.cluster_spec import Address, parse_address
from tfscale.core.errors import UsageError


def test_addresses_keep_ipv6_hosts_without_brackets() -> None:
    address = parse_address("[fe80::1]:2222")
    assert address == Address("fe80::1", 2222)
    assert str(address) == "[fe80::1]:2222"
    with pytest.raises(UsageError, match=r"^--listen: "):
        parse_address("fe80::1", "--listen")


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("127.0.0.2", True),
        ("::1", True),
        ("a", False),
        ("127.attacker.example", False),
        ("127.0.0.1.example", False),
        ("localhost.example", False),
    ],
)
def test_loopback_is_known_by_its_names(host: str, loopback: bool) -> None:
    assert Address(host, 1).is_loopback is loopback
