"""Names and addresses by which this machine may be meant in a cluster file."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Collection

import psutil
from tfscale.agent.preflight.examiner import resolved_names
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec


def own_name() -> str:
    return socket.gethostname()


def own_hosts(spec: ClusterSpec) -> set[str]:
    """Return the hosts of the cluster's tasks that are this machine, as the file writes them.

    A host is this machine by the machine's name, with or without its domain, or by an address of one of its interfaces.
    Other names are looked up only where no host was found so: each of a thousand agents would look up a thousand names.
    """
    hosts = {address.host for address in spec.tasks.values()}
    own = own_name().lower()
    names = {own, own.partition(".")[0]}
    addresses = _own_addresses()
    if found := {host for host in hosts if host.lower().rstrip(".") in names or _is_own(host, addresses)}:
        return found
    places = asyncio.run(resolved_names(spec))
    return {each.name for each in places if each.name in hosts and any(_is_own(at, addresses) for at in each.addresses)}


def _own_addresses() -> set[str]:
    found = (address.address.partition("%")[0] for each in psutil.net_if_addrs().values() for address in each)
    return set(filter(None, map(_normal, found)))


def _is_own(host: str, addresses: Collection[str]) -> bool:
    return Address(host, 0).is_loopback or _normal(host) in addresses


def _normal(host: str) -> str | None:
    """Return the normal form of an IP address, None for other text."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None
