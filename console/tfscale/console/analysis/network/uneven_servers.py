"""Parameter servers of which one moves much more than its part, because variables were not shared out by size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.run.remedies import SMALL
from tfscale.core.cluster.task import Role
from tfscale.core.records.diagnosis import Diagnosis, Evidence
from tfscale.core.text import data_size

UNEVEN = 1.5
"""Times its even part from which on a server moves too much: where it is the limit, even servers would be 1.5 times as
fast. A smaller number would name servers that whole variables cannot fill evenly, a larger one not two in the ratio of
three to one."""
_FEWEST = 20
"""Functions on workers before which nothing is said: a first evaluation would count as much as training."""


@dataclass(frozen=True, slots=True)
class ServerExchange:
    """Bytes that the workers of an attempt have exchanged with each parameter server."""

    moved: dict[str, int]
    """Bytes by server, also of those that moved none."""
    functions: int
    """Number of the workers' functions that moved them."""

    @property
    def busiest(self) -> str:
        return max(self.moved, key=lambda server: self.moved[server])

    @property
    def share(self) -> float:
        """Share of the busiest server, 0 to 1."""
        return self.moved[self.busiest] / sum(self.moved.values())

    @property
    def excess(self) -> float:
        """Bytes of the busiest server over its even part."""
        return self.share * len(self.moved)


def server_exchange(tasks: Iterable[ObservedTask]) -> ServerExchange | None:
    """Return the exchange that the chief has counted, None where it has counted none."""
    tasks = tuple(tasks)
    moved = Counter({task.name: 0 for task in tasks if task.task.role is Role.PS})
    workers = [worker for task in tasks if task.coordinator for worker in task.coordinator.workers]
    for worker in workers:
        moved.update({each.server: each.pulled + each.pushed for each in worker.traffic})
    functions = sum(worker.finished for worker in workers)
    return ServerExchange(dict(moved), functions) if functions and any(moved.values()) else None


def uneven_servers(tasks: Sequence[ObservedTask]) -> list[Diagnosis]:
    """Return a diagnosis of the server that moves much more than its part."""
    exchange = server_exchange(tasks)
    chief = next((task for task in tasks if task.coordinator), None)
    if exchange is None or chief is None or exchange.functions < _FEWEST or exchange.excess < UNEVEN:
        return []
    of_step = sum(exchange.moved.values()) / exchange.functions
    if of_step <= SMALL:
        return []
    share = "all" if exchange.share == 1 else f"{exchange.share:.1%}"
    servers, even = len(exchange.moved), 1 / len(exchange.moved)
    sentence = (
        f"{exchange.busiest} moves {share} of the {data_size(of_step)} that workers exchange with {servers} servers in "
        f"a step; spread evenly it would be {even:.0%}"
    )
    begin = chief.status.started if chief.status and chief.status.started is not None else chief.at or 0.0
    evidence: Evidence = {"share": exchange.share, "bytes_per_step": of_step}
    return [Diagnosis("uneven_servers", exchange.busiest, begin, None, "info", sentence, evidence=evidence)]
