"""Failures of hosts within a period, and when a host has failed so often that it is cordoned. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfscale.core.cluster.recovery_policy import RecoveryPolicy, time_text
from tfscale.core.text import plural

_MOST_HOSTS = 1024
"""Hosts whose failures are kept: the journal stays short."""


@dataclass(frozen=True, slots=True)
class HostFailures:
    """Times at which hosts have failed, Unix seconds, oldest first, by host; of the last `period` alone."""

    by_host: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def after(self, host: str, at: float, policy: RecoveryPolicy) -> HostFailures:
        """Return the failures with one more of `host`, at `at`."""
        known = self.by_host.items()
        kept = {name: policy.within_period(times, at) for name, times in known}
        kept[host] = (*kept.pop(host, ()), at)
        newest = [(name, times) for name, times in kept.items() if times][-_MOST_HOSTS:]
        return HostFailures(dict(newest))

    def without(self, host: str) -> HostFailures:
        """Return the failures without those of an uncordoned host."""
        return HostFailures({name: times for name, times in self.by_host.items() if name != host})

    def why_cordoned(self, host: str, policy: RecoveryPolicy) -> str:
        """Return why a host is cordoned, empty where it is not."""
        count = len(self.by_host.get(host, ()))
        return (
            f"failed {plural(count, 'time')} within {time_text(policy.period)}" if count >= policy.cordon_after else ""
        )


def parse_host_failures(given: Mapping[str, Any]) -> HostFailures:
    """Return the failures of an object of the journal. Raises ValueError, TypeError and AttributeError."""
    by_host = given.get("by_host", {})
    return HostFailures({str(host): tuple(map(float, times)) for host, times in by_host.items()})
