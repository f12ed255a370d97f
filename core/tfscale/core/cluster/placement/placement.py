"""Placement of one generation: the agent of each task, and the cluster spec with the tasks there.

The cluster file gives each task an agent, and may name spares: agents that hold no task. All of them are *seats*. A
seat's name is the address of its agent; a second address serves the task that the seat holds. After a restart without a
host tasks may sit elsewhere than in the file, and the last workers may be *vacant*.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tfscale.core.cluster.cluster_spec import Address, ClusterSpec, parse_address
from tfscale.core.cluster.task import Role, Task
from tfscale.core.errors import UsageError
from tfscale.core.text import bounded

_MOST_REASON = 200
"""Characters of the reason for which a host is cordoned."""


class PlacementError(UsageError):
    """A placement that cannot exist; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Seats of all tasks in one generation, and the hosts on which no task is placed."""

    generation: int
    """Generation of the command that made the placement; 0 for the cluster file's own. The highest is the newest."""
    seats: Mapping[Task, Address]
    """Agent of each task, in the cluster's order. A worker that is absent is vacant."""
    cordoned: Mapping[str, str] = field(default_factory=dict)
    """Reason by host, as agents' addresses name it."""
    revision: int = 0
    """Number of later changes without a start of tasks: each uncordoned a host."""

    def task_of(self, seat: Address) -> Task | None:
        """Return the task of this seat, None for a seat without a task."""
        return next((task for task, agent in self.seats.items() if agent == seat), None)

    def is_newer(self, other: Placement) -> bool:
        return self.order > other.order

    @property
    def order(self) -> tuple[int, int]:
        """Number by which the newest of several placements is the highest."""
        return self.generation, self.revision

    def to_json(self) -> str:
        """Return its JSON form, which journals keep and agents send."""
        seats = {str(task): str(agent) for task, agent in self.seats.items()}
        document = {"generation": self.generation, "seats": seats, "cordoned": dict(self.cordoned)}
        return json.dumps(document | ({"revision": self.revision} if self.revision else {}))


def may_move(spec: ClusterSpec) -> bool:
    """Decide whether tasks of this cluster may ever sit elsewhere than in the file."""
    return bool(spec.spares) or (spec.recovery is not None and spec.recovery.min_workers is not None)


@dataclass(frozen=True, kw_only=True)
class PlacedCluster(ClusterSpec):
    """Cluster with its tasks at the agents of a placement."""

    file: ClusterSpec
    """Cluster of the file that the placement is about."""
    placement: Placement

    def to_json(self) -> str:
        """Return the JSON form of the cluster's file, without the placement."""
        return self.file.to_json()

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the cluster's file."""
        return self.file.fingerprint


def file_spec(spec: ClusterSpec) -> ClusterSpec:
    """Return the spec as the cluster file has it."""
    return spec.file if isinstance(spec, PlacedCluster) else spec


def placed_in(spec: ClusterSpec) -> int:
    """Return the generation of the spec's placement; 0 for the spec of a cluster file."""
    return spec.placement.generation if isinstance(spec, PlacedCluster) else 0


def file_placement(spec: ClusterSpec) -> Placement:
    """Return the placement of the cluster file, in which spares hold nothing."""
    return Placement(0, file_spec(spec).agents)


def seats_of(spec: ClusterSpec) -> dict[Address, Address]:
    """Return the address at which each seat serves a task, by the seat's agent: the tasks' own seats, then spares."""
    written = file_spec(spec)
    return {written.agents[task]: address for task, address in written.tasks.items()} | dict(written.spares)


def placed_spec(spec: ClusterSpec, placement: Placement) -> ClusterSpec:
    """Return the spec with each task at its agent of `placement`.

    Its fingerprint is that of the file. The speed of a link belongs to a host: a task that sits elsewhere has only the
    speed that the file gives to all.
    """
    written, addresses = file_spec(spec), seats_of(spec)
    if not placement.generation:
        return written
    moved = {str(task) for task, agent in written.agents.items() if placement.seats.get(task) != agent}
    moving = {
        "tasks": {task: addresses[agent] for task, agent in placement.seats.items()},
        "agents": dict(placement.seats),
        "link_speeds": {name: speed for name, speed in written.link_speeds.items() if name not in moved},
    }
    staying = {each.name: getattr(written, each.name) for each in fields(written)}
    return PlacedCluster(**(staying | moving), file=written, placement=placement)


def parse_placement(text: str, spec: ClusterSpec) -> Placement:
    """Return the placement that JSON text describes. Raises PlacementError for another text or another cluster's."""
    try:
        return _parsed(json.loads(text), spec)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise PlacementError(f"no placement: {error!r}") from None
    except UsageError as error:
        raise PlacementError(f"no placement of this cluster: {error}") from None


def _parsed(document: Mapping[str, Any], spec: ClusterSpec) -> Placement:
    written, known = file_spec(spec), seats_of(spec)
    generation, revision = document["generation"], document.get("revision", 0)
    for name, number in (("generation", generation), ("revision", revision)):
        if type(number) is not int or number < 0:
            raise UsageError(f"{name} {bounded(repr(number), _MOST_REASON)} is no whole number from 0")
    given = {Task.parse(name): parse_address(agent) for name, agent in document["seats"].items()}
    seats = {task: given[task] for task in written.tasks if task in given}
    if strange := [str(each) for each in (*(set(given) - set(seats)), *(set(seats.values()) - set(known)))]:
        raise UsageError(f"the cluster file has no {strange[0]}: give all agents the same file")
    if len(set(seats.values())) < len(seats):
        raise UsageError("one agent holds two tasks")
    if gap := why_not_whole(written, seats):
        raise UsageError(gap)
    cordoned = {str(host): bounded(str(why), _MOST_REASON) for host, why in document.get("cordoned", {}).items()}
    hosts = {agent.host for agent in known}
    return Placement(generation, seats, {host: why for host, why in cordoned.items() if host in hosts}, revision)


def why_not_whole(spec: ClusterSpec, seats: Mapping[Task, Address]) -> str:
    """Return the gap in a placement, empty without one: for dense indices only the last workers may lack a seat."""
    vacant = [task for task in file_spec(spec).tasks if task not in seats]
    if other := [task for task in vacant if task.role is not Role.WORKER]:
        return f"{other[0]} has no agent"
    first = min((task.index for task in vacant), default=None)
    if first is not None and any(task.role is Role.WORKER and task.index > first for task in seats):
        return f"worker:{first} has no agent, and a later worker has one"
    if vacant and not any(task.role is Role.WORKER for task in seats):
        return "no worker has an agent"
    return ""
