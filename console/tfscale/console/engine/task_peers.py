"""Peers of a task: the tasks that should do the same as it does, so that their numbers can be compared."""

from __future__ import annotations

from typing import NamedTuple

from tfscale.console.engine.model import Snapshot
from tfscale.core.cluster.strategy import SYNCHRONOUS
from tfscale.core.cluster.task import Role, Task


class Peers(NamedTuple):
    """Peers of one task, without itself."""

    tasks: tuple[Task, ...] = ()
    why_none: str = ""
    """Reason for which it has none; empty where it has some."""


def peers_of(snapshot: Snapshot, task: Task) -> Peers:
    """Return the peers of a task: those of its role, and beside a chief that trains, the workers."""
    if any(view.stages for view in snapshot.tasks):
        return Peers(why_none="the stages of a pipeline do unequal work")
    apart = (found for found in snapshot.findings.diagnoses if found.kind == "not_measured" and found.end is None)
    if any(str(task) in found.together for found in apart):
        return Peers(why_none="no strategy joins this training with another one")
    tasks = [view.task for view in snapshot.tasks]
    has_servers = any(each.role is Role.PS for each in tasks)
    trains = SYNCHRONOUS.in_step if task.role in SYNCHRONOUS.in_step and not has_servers else frozenset({task.role})
    peers = tuple(each for each in tasks if each.role in trains and each != task)
    return Peers(peers, "" if peers else f"this is the only {task.role}")
