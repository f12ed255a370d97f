"""Names and addresses by which this machine may be meant in a cluster file."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Collection

import psutil
from tfscale.agent.preflight.examiner import resolved_names
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.errors import UsageError


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


def refuse_two_names(spec: ClusterSpec, where: str) -> None:
    """Raise UsageError where two tasks have one port of this host: by a name of the host, and otherwise.

    The message begins with `where`.
    """
    known = (*spec.tasks.values(), *spec.spares.values())
    names = {"127.0.0.1", own_name().lower(), own_name().lower().partition(".")[0]}
    named = {address.port: address for address in known if address.plain.host in names}
    if not named:
        return
    own = {*names, *(each for each in _own_addresses() if not ipaddress.ip_address(each).is_loopback)}
    for address in known:
        other = named.get(address.port, address)
        if address != other and address.plain.host in own:
            first, second = sorted(map(str, (address, other)))
            raise UsageError(f"{where}: {first} and {second} are one address of this host: each task needs its own")


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
