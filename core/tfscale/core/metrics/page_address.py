"""Address of a page for Prometheus as users write it: `:9471`, or `HOST:9471`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tfscale.core.cluster.cluster_spec import Address, parse_address
from tfscale.core.errors import UsageError

_VARIABLE = "TFSCALE_METRICS"
"""Variable of the setting `metrics`, of agents and of consoles."""


def without_page(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for other agents, which would find the port of this program's page taken."""
    return {name: value for name, value in environment.items() if name != _VARIABLE}


def page_address(text: str, place: str) -> Address:
    """Return the address; without a host its host is empty, for `at` to fill in. Raises UsageError."""
    try:
        address = parse_address(f"-{text}" if text.startswith(":") else text, place)
    except UsageError:
        raise UsageError(
            f"{place}: {text!r} is no port to serve: write :9471, or HOST:9471 (ports 1 to 65535)"
        ) from None
    return replace(address, host="") if text.startswith(":") else address


def at(address: Address, host: str) -> Address:
    """Return the address with this host, where it has none."""
    return address if address.host else replace(address, host=host)
