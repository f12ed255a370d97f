"""Counts of a cluster's recovery: restarts, failures of hosts, slow tasks. Pure.

Each agent keeps them in its journal. They go with each command, and with the report of a failure, from agent to agent:
whoever acts next goes on with the same counts. Of two counts of one name that of the newer generation holds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tfscale.agent.cluster.restart_budget import RestartBudget, parse_budget
from tfscale.core.cluster.placement.host_failures import HostFailures, parse_host_failures

_SENT = 64
"""Newest budgets, hosts and slow tasks that are sent."""
_MOST_SENT = 32 << 10
"""Characters of counts that are sent: half of what the agents can agree on."""


@dataclass(frozen=True, slots=True)
class RecoveryCounts:
    """Counts of one cluster, with times on this host's steady clock."""

    budgets: tuple[RestartBudget, ...] = ()
    """Restarts that are left, by the group of tasks that restart together; the one that changed last is the last."""
    hosts: HostFailures = field(default_factory=HostFailures)
    """Failures that began on each host."""
    slow: tuple[str, ...] = ()
    """Tasks that were restarted because they were slow."""

    def budget(self, name: str) -> RestartBudget:
        return next((each for each in self.budgets if each.name == name), RestartBudget(name))

    def with_budget(self, budget: RestartBudget) -> RecoveryCounts:
        others = (each for each in self.budgets if each.name != budget.name)
        return replace(self, budgets=(*others, budget))

    def with_slow(self, task: str) -> RecoveryCounts:
        return replace(self, slow=tuple(dict.fromkeys((*self.slow, task))))

    def with_other(self, other: RecoveryCounts) -> RecoveryCounts:
        """Return these counts with those that are newer in `other`."""
        counts = replace(self, hosts=self.hosts.with_other(other.hosts))
        for budget in other.budgets:
            counts = counts.with_budget(budget) if budget.is_newer(counts.budget(budget.name)) else counts
        for task in other.slow:
            counts = counts.with_slow(task)
        return counts

    def aged(self, now: float) -> dict[str, object]:
        """Return the counts as an object of JSON, with ages at `now` in the place of times."""
        return {
            "budgets": [budget.aged(now) for budget in self.budgets],
            "hosts": self.hosts.aged(now),
            "slow": self.slow,
        }

    def sent(self, now: float) -> str:
        """Return as many of the newest counts as fit in a message, as JSON with ages at `now`; empty for none."""
        if self == RecoveryCounts():
            return ""
        number = _SENT
        while len(text := json.dumps(self._newest(number).aged(now))) > _MOST_SENT and number:
            number //= 2
        return text

    def _newest(self, number: int) -> RecoveryCounts:
        hosts = [*self.hosts.by_host.items()]
        return RecoveryCounts(
            self.budgets[max(0, len(self.budgets) - number) :],
            HostFailures(dict(hosts[max(0, len(hosts) - number) :])),
            self.slow[max(0, len(self.slow) - number) :],
        )


def received_counts(text: str, now: float) -> RecoveryCounts:
    """Return counts that came at `now`. Raises ValueError."""
    if len(text) > _MOST_SENT:
        raise ValueError(f"counts of more than {_MOST_SENT} characters")
    try:
        return parse_counts(json.loads(text) if text else {}, now)
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"counts that make no sense: {error!r}") from None


def parse_counts(given: Mapping[str, Any], now: float) -> RecoveryCounts:
    """Return the counts of an object of JSON, whose ages are of `now`.

    Raises ValueError, TypeError, KeyError and AttributeError.
    """
    return RecoveryCounts(
        tuple(parse_budget(budget, now) for budget in given.get("budgets", ())),
        parse_host_failures(given.get("hosts", {}), now),
        tuple(map(str, given.get("slow", ()))),
    )
