"""Course of a simulation: which fault holds when, the starts of tasks, and the host of each task.

A fault of a process ends with the process; a fault of a host stays there, and a task that moves leaves it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tfscale.console.sources.simulation.simulated_faults import HOST_KINDS, STANDSTILLS, Fault
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.placement.place_rule import moves, place_tasks
from tfscale.core.cluster.placement.placement import Placement, file_placement, seats_of
from tfscale.core.cluster.recovery_policy import RecoveryPolicy
from tfscale.core.cluster.restart import plan_restart
from tfscale.core.cluster.task import Role, Task

STOPS, STARTS = 1.0, 2.0
"""Seconds from an order to the end of the old processes, and from there until the new ones train."""
REPLACE_AFTER = RecoveryPolicy({}).replace_after
"""Seconds after which tasks of a dead host are placed on a spare, as agents do unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Restart:
    """Restart of some tasks, asked for at `asked`, seconds of the simulation."""

    asked: float
    tasks: frozenset[Task]
    reason: str

    @property
    def started(self) -> float:
        """Time from which on the new processes are there."""
        return self.asked + STOPS

    @property
    def up(self) -> float:
        """Time from which on they train."""
        return self.started + STARTS


class Course:
    """Faults, restarts and the placement of a simulated cluster; times are seconds of the simulation."""

    def __init__(self, spec: ClusterSpec, faults: Sequence[Fault] = ()) -> None:
        self.spec = spec
        self.faults = tuple(faults)
        self.placement = file_placement(spec)
        self.tasks = list(spec.tasks)
        self.workers = [task for task in self.tasks if task.role is Role.WORKER]
        self.servers = [task for task in self.tasks if task.role is Role.PS]
        self.places = {task: place for place, task in enumerate(self.tasks)}
        self.host_names = {seat: f"node-{place:04}" for place, seat in enumerate(seats_of(spec))}
        self.strategy = "ParameterServerStrategyV2" if self.servers else "MultiWorkerMirroredStrategy"
        self._restarts: list[Restart] = []
        self._dead: set[Address] = set()
        """Seats that were left because nobody reached them."""
        self._touched: dict[Task, frozenset[Task]] = {}

    def touched(self, task: Task) -> frozenset[Task]:
        """Return the tasks that stand still, end and start with a task."""
        if task not in self._touched:
            self._touched[task] = self.plan([task])
        return self._touched[task]

    def plan(self, tasks: Iterable[Task]) -> frozenset[Task]:
        """Return these tasks and all that restart with them."""
        return frozenset(plan_restart(self.spec, self.strategy, tasks))

    def holds(self, kind: str, task: Task, at: float) -> bool:
        """Decide whether a task has a fault of this kind at a time."""
        return any(fault.kind == kind and fault.task == task and fault.holds(at) for fault in self.faults)

    def is_out_of_reach(self, task: Task, at: float) -> bool:
        """Decide whether the console does not reach a task's agent."""
        return self.holds("cut", task, at) or self.holds("gone", task, at)

    def standstills(self, worker: Task) -> list[tuple[float, float]]:
        """Return the times in which a worker makes no step, in order: begins and ends."""
        needed = {worker, *((self.spec.lead, *self.servers) if self.servers else self.workers)}
        found = [
            (fault.begin, fault.end)
            for fault in self.faults
            if fault.kind in ("kill", *STANDSTILLS) and fault.task in needed
        ]
        return sorted(found + [(each.asked, each.up) for each in self._restarts if each.tasks & needed])

    def counter(self, worker: Task) -> Task:
        """Return the task that counts and reports a worker's steps."""
        return self.spec.lead if self.servers else worker

    def start_of(self, task: Task, at: float) -> tuple[int, float]:
        """Return the generation of a task's newest start, and its time."""
        newest = (1, 0.0)
        for generation, (begin, tasks) in enumerate(self._starts(), 2):
            if begin <= at and task in tasks:
                newest = generation, begin
        return newest

    def restart_of(self, task: Task, at: float) -> Restart | None:
        """Return the restart in which a task is."""
        return next((each for each in self._restarts if each.asked <= at < each.up and task in each.tasks), None)

    def death_before(self, task: Task, at: float) -> Fault | None:
        """Return the death for which a task does not run."""
        for fault in self.faults:
            # Dead is dead: the end of the fault is a start, or a restart that was asked for.
            until = next((each.started for each in self._restarts if each.asked == fault.end), fault.end)
            if fault.kind == "kill" and fault.begin <= at < until and task in self.touched(fault.task):
                return fault
        return None

    def standing(self, task: Task, at: float) -> Fault | None:
        """Return the fault for which a task stands still while it runs: its own, or that of one it waits for."""
        stuck = (fault for fault in self.faults if fault.kind in STANDSTILLS and fault.holds(at))
        # A worker of servers makes nobody wait.
        return next(
            (each for each in stuck if each.task == task or not self.servers or each.task.role is not Role.WORKER), None
        )

    def restart(self, tasks: Iterable[Task], at: float, reason: str, without: str = "") -> Restart:
        """Restart tasks with all that depend on them; without a host, if one is named, which is then cordoned.

        Raises PlacementError where a task finds no other place.
        """
        if without:
            cordoned = {**self.placement.cordoned, without: reason}
            reason = self._place(replace(self.placement, cordoned=cordoned), f"{reason}, without {without}", at)
        return self._begin(self.plan(tasks), at, reason)

    def replace_dead(self, at: float) -> None:
        """Restart without the hosts that nobody has reached for long enough, as long as a spare is free."""
        for fault in self.faults:
            seat = self.placement.seats[fault.task]
            is_due = fault.kind == "gone" and fault.holds(at) and at >= fault.begin + REPLACE_AFTER
            if is_due and self._has_free_spare():
                self._dead.add(seat)
                words = f"restarted by itself, without {seat}, which does not answer"
                self._begin(self.touched(fault.task), at, self._place(self.placement, words, at))

    def uncordon(self, host: str) -> None:
        """Let tasks be placed on a host again."""
        left = {name: why for name, why in self.placement.cordoned.items() if name != host}
        self.placement = replace(self.placement, cordoned=left, revision=self.placement.revision + 1)

    def _has_free_spare(self) -> bool:
        held = {*self.placement.seats.values(), *self._dead}
        return any(seat not in held and seat.host not in self.placement.cordoned for seat in self.spec.spares)

    def _place(self, now: Placement, reason: str, at: float) -> str:
        """Place all tasks where they can be, and return the reason with what has moved."""
        lost = {now.seats[fault.task] for fault in self.faults if fault.kind == "gone" and fault.holds(at)}
        usable = [seat for seat in seats_of(self.spec) if seat not in self._dead | lost]
        seats = place_tasks(self.spec, now, usable, None)
        generation = 2 + sum(begin <= at for begin, _ in self._starts())
        self.placement = replace(now, generation=generation, revision=0, seats=seats)
        return f"{reason}: {moves(now.seats, seats)}"

    def _begin(self, tasks: frozenset[Task], at: float, reason: str) -> Restart:
        self.faults = tuple(
            replace(fault, end=at) if fault.holds(at) and fault.task in tasks and self._is_left(fault) else fault
            for fault in self.faults
        )
        self._restarts.append(Restart(at, tasks, reason))
        return self._restarts[-1]

    def _is_left(self, fault: Fault) -> bool:
        """Decide whether a task that starts anew has left a fault behind."""
        has_moved = self.placement.seats[fault.task] != self.spec.agents[fault.task]
        return has_moved if fault.kind in HOST_KINDS else fault.kind != "uneven"

    def _is_start(self, death: Fault) -> bool:
        return math.isfinite(death.end) and all(each.asked != death.end for each in self._restarts)

    def _starts(self) -> list[tuple[float, frozenset[Task]]]:
        """Return the starts after the first, in order: when, and which tasks."""
        deaths = (fault for fault in self.faults if fault.kind == "kill" and self._is_start(fault))
        starts = [(death.end, self.touched(death.task)) for death in deaths]
        return sorted([*starts, *((each.started, each.tasks) for each in self._restarts)], key=lambda start: start[0])
