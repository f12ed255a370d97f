"""Failures of hosts within a period, and when a host has failed so often that it is cordoned. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tfscale.core.cluster.recovery_policy import RecoveryPolicy, time_text
from tfscale.core.text import plural

_MOST_HOSTS = 1024
"""Hosts that are kept: the journal stays short."""


@dataclass(frozen=True, slots=True)
class HostCount:
    """Failures of one host."""

    times: tuple[float, ...] = ()
    """Times within the last `period`, oldest first, in seconds on a clock of this host that nobody sets."""
    generation: int = 0
    """Generation in which it failed last, or was uncordoned since: of two counts the higher one is the newer."""


@dataclass(frozen=True, slots=True)
class HostFailures:
    """Counted failures, by host."""

    by_host: Mapping[str, HostCount] = field(default_factory=dict)

    def after(self, host: str, at: float, generation: int, policy: RecoveryPolicy) -> HostFailures:
        """Return the failures with one more of `host`, at `at` in this generation."""
        kept = {
            name: HostCount(policy.within_period(count.times, at), count.generation)
            for name, count in self.by_host.items()
        }
        before = kept.get(host, HostCount())
        return HostFailures(kept)._with(host, HostCount((*before.times, at), max(before.generation, generation)))

    def forgiven(self, host: str, generation: int) -> HostFailures:
        """Return the failures without those of a host that is uncordoned in this generation."""
        return self._with(host, HostCount((), generation))

    def with_other(self, other: HostFailures) -> HostFailures:
        """Return the newer count of each host."""
        failures = self
        for host, count in other.by_host.items():
            if count.generation > failures.by_host.get(host, HostCount()).generation:
                failures = failures._with(host, count)
        return failures

    def why_cordoned(self, host: str, policy: RecoveryPolicy) -> str:
        """Return why a host is cordoned, empty where it is not."""
        count = len(self.by_host.get(host, HostCount()).times)
        return (
            f"failed {plural(count, 'time')} within {time_text(policy.period)}" if count >= policy.cordon_after else ""
        )

    def which(self, host: str, policy: RecoveryPolicy) -> str:
        """Return the number of a host's newest failure in words."""
        number = len(self.by_host.get(host, HostCount()).times)
        return f"failure {number} of {policy.cordon_after} of {host} within {time_text(policy.period)}"

    def aged(self, now: float) -> dict[str, object]:
        """Return the failures as an object of JSON, with ages at `now` in the place of times."""
        return {
            host: {"ages": ages_of(count.times, now), "generation": count.generation}
            for host, count in self.by_host.items()
        }

    def _with(self, host: str, count: HostCount) -> HostFailures:
        others = [(name, each) for name, each in self.by_host.items() if name != host]
        return HostFailures(dict([*others, (host, count)][-_MOST_HOSTS:]))


def parse_host_failures(given: Mapping[str, Any], now: float) -> HostFailures:
    """Return the failures of an object of JSON, whose ages are of `now`.

    Raises ValueError, TypeError, KeyError and AttributeError.
    """
    counts = {
        str(host): HostCount(times_of(count["ages"], now), int(count["generation"])) for host, count in given.items()
    }
    return HostFailures(counts)


def ages_of(times: Iterable[float], now: float) -> list[float]:
    """Return how long ago these times were, in seconds: what another host, or another boot of this one, can read."""
    return [round(max(0.0, now - time), 1) for time in times]


def times_of(ages: Iterable[Any], now: float) -> tuple[float, ...]:
    """Return the times of these ages. Raises ValueError and TypeError."""
    times = tuple(now - float(age) for age in ages)
    if not all(math.isfinite(time) and time <= now for time in times):
        raise ValueError("an age is below 0, or none")
    return times
