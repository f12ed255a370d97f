"""Rule that gives each task of a cluster a seat. Pure.

A task keeps its seat as long as the seat can be used. A task that has lost its seat gets its own seat of the cluster
file, else a spare, else another free seat. Where no seat is free and `min_workers` allows it, the task gets the seat of
the last worker: the gang goes on with fewer workers, whose indices have no gap. At the next restart a seat that is free
again is taken.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Mapping

from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.placement.placement import Placement, PlacementError, file_spec, seats_of
from tfscale.core.cluster.task import Role, Task
from tfscale.core.text import listing

MOVABLE = frozenset({Role.CHIEF, Role.WORKER, Role.PS})
"""Roles whose tasks may sit on another host than in the file. An evaluator stays because the training goes on
without it, the tf.data service because the programs know its address."""


def place_tasks(
    spec: ClusterSpec, now: Placement, usable: Collection[Address], min_workers: int | None
) -> dict[Task, Address]:
    """Return the seat of each task of the next generation, in the cluster's order.

    Args:
        spec: the cluster.
        now: the placement of now; what it has cordoned is not used.
        usable: agents that answer and can start a task.
        min_workers: fewest workers with which the gang is placed; None: all of the file.

    Raises:
        PlacementError: a task finds no seat; the message names it, and what would help.
    """
    written = file_spec(spec)
    good = {seat for seat in usable if seat.host not in now.cordoned}
    placed = {task: seat for task, seat in now.seats.items() if seat in good or task.role not in MOVABLE}
    free = _free(written, good - set(placed.values()))
    for task in written.tasks:
        if task not in placed and free:
            home = written.agents[task]
            placed[task] = home if home in free else next(iter(free))
            del free[placed[task]]
    _close_up(written, placed, now, min_workers)
    return {task: placed[task] for task in written.tasks if task in placed}


def seats_on(spec: ClusterSpec, now: Placement, name: str) -> list[Address]:
    """Return the seats that a person means by a host, an agent's `host:port` or a task. Raises PlacementError."""
    seats = seats_of(spec)
    named = [seat for seat in seats if name in (seat.host, str(seat))]
    named += [seat for task, seat in now.seats.items() if name == str(task)]
    if not named:
        hosts = listing(list(dict.fromkeys(seat.host for seat in seats)))
        raise PlacementError(f"{name!r} is no host of the cluster: name one of {hosts}, or a task")
    return named


def _free(spec: ClusterSpec, free: set[Address]) -> dict[Address, None]:
    """Return the free seats that may hold any task, spares first."""
    order = [*spec.spares, *(seat for task, seat in spec.agents.items() if task.role in MOVABLE)]
    return dict.fromkeys(seat for seat in order if seat in free)


def _close_up(spec: ClusterSpec, placed: dict[Task, Address], now: Placement, min_workers: int | None) -> None:
    """Fill each gap with the seat of the last worker. Raises PlacementError where too few workers would be left."""
    workers = [task for task in spec.tasks if task.role is Role.WORKER]
    fewest = len(workers) if min_workers is None else min(min_workers, len(workers))
    lost = [task for task in spec.tasks if task not in placed]
    held = sorted(task for task in placed if task.role is Role.WORKER)
    for task in lost:
        if held and (task.role is not Role.WORKER or held[-1].index > task.index):
            placed[task] = placed.pop(held.pop())
            if task.role is Role.WORKER:
                bisect.insort(held, task)
    left = sum(task.role is Role.WORKER for task in placed)
    missing = [task for task in spec.tasks if task not in placed and task.role is not Role.WORKER]
    if left < fewest or missing or (workers and not left):
        raise PlacementError(_no_seat(lost, now, spec, min_workers))


def _no_seat(lost: list[Task], now: Placement, spec: ClusterSpec, min_workers: int | None) -> str:
    names = listing([str(task) for task in lost])
    spare = "no further spare is free" if spec.spares else "the cluster file has no [spares]"
    fewer = (
        "and no min_workers" if min_workers is None else f"and the others are fewer than min_workers = {min_workers}"
    )
    cordoned = f"; {listing(list(now.cordoned))} is cordoned: uncordon it" if now.cordoned else ""
    return f"there is no place for {names}: {spare}, {fewer}: start an agent{cordoned}"


def moves(old: Mapping[Task, Address], new: Mapping[Task, Address]) -> str:
    """Return the changes from one placement to the next in words: `worker:1 to host-c, worker:3 vacant`."""
    moved = [f"{task} to {seat.host}" for task, seat in new.items() if old.get(task) != seat]
    vacant = [f"{task} vacant" for task in old if task not in new]
    return ", ".join([*moved, *vacant])
