"""History of a simulated cluster, and what contradicts the promises of its agents."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc
import grpc.aio
from simulated.simulated_tasks import Stay
from tfscale.v1 import agent_pb2

_UNANSWERED = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
)

if TYPE_CHECKING:
    from simulated.simulated_agents import Cluster


@dataclass
class Order:
    """Order of an operator; times are virtual seconds."""

    verb: str
    began: float
    done: float | None = None
    """Time at which it was told as done; None where it was not."""
    is_refused: bool = False
    tasks: tuple[str, ...] = ()
    words: str = ""

    def take(self, progress: agent_pb2.Progress, now: float) -> None:
        """Take in one step of its progress."""
        if progress.stage != agent_pb2.STAGE_WORKING:  # it waits
            self.tasks = self.tasks or tuple(progress.tasks)
        self.words = progress.message or self.words
        if progress.stage == agent_pb2.STAGE_DONE:
            self.done = now

    def end(self, error: grpc.aio.AioRpcError) -> None:
        """Take in that it failed; where nobody has answered, something may come of it all the same."""
        self.words = error.details() or ""
        self.is_refused = not self.tasks and error.code() not in _UNANSWERED


@dataclass
class History:
    """Events of one simulation."""

    stays: list[Stay] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    troubles: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    """Events that are no faults by themselves."""
    _noted: list[str] = field(default_factory=list)

    def note(self, fault: str) -> None:
        """Take in a fault that was seen when it happened."""
        self._noted.append(fault)

    def count(self, kind: str) -> None:
        self.troubles[kind] += 1

    def faults(self) -> list[str]:
        """Return each contradiction."""
        return [*self._noted, *self._doubled_roles(), *self._broken_stops()]

    def _doubled_roles(self) -> list[str]:
        """Return the roles that two hosts had in one generation, or two processes of one host at a time."""
        held: dict[tuple[str, int], list[Stay]] = defaultdict(list)
        for stay in self.stays:
            held[stay.task, stay.generation].append(stay)
        faults = []
        for (task, generation), stays in held.items():
            if len(hosts := sorted({stay.host for stay in stays})) > 1:
                faults.append(f"{task} was started in generation {generation} on {' and '.join(hosts)}")
        return faults

    def _broken_stops(self) -> list[str]:
        """Return the starts of tasks that were told to be stopped, and that no later order may have started."""
        faults = []
        for stop in self.orders:
            if stop.verb != "stop" or stop.done is None:
                continue
            for stay in self.stays:
                if stay.task in stop.tasks and stay.began > stop.done and not self._is_ordered(stop, stay.began):
                    faults.append(f"{stay} began although a stop was done at {stop.done:.3f}")
                    break
        return faults

    def _is_ordered(self, stop: Order, at: float) -> bool:
        """Decide whether an order to start may have come after this one, up to `at`."""
        return any(
            order.verb in ("restart", "start") and not order.is_refused and order.began < at
            and (order.began > stop.began or order.done is None or order.done > stop.began)
            for order in self.orders
        )  # fmt: skip

    def end(self, cluster: Cluster) -> None:
        """Look at the end of a cluster: its gang trains, or somebody has stopped it."""
        stops = [order for order in self.orders if order.verb == "stop" and not order.is_refused]
        starts = [order for order in self.orders if order.verb in ("restart", "start") and order.done is not None]
        statuses = cluster.statuses()
        told = {name: f"{status.state} in {status.generation} {status.reason}" for name, status in statuses.items()}
        living = [process.stay for process in cluster.processes.living.values()]
        self.notes.append(f"in the end {living}, {told}")
        is_stopped = any(all(start.began < (stop.done or start.done) for start in starts) for stop in stops)
        if is_stopped and not any(stay.task in stop.tasks for stay in living for stop in stops):
            return
        if not cluster.trains():
            where = [(stay.host, stay.task, stay.generation) for stay in living]
            self.note(f"the gang does not train after a minute without faults: {where}; {told}")
