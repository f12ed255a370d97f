"""Culprits: the tasks that the top line is about, and then the others with a flag."""

from __future__ import annotations

from tfscale.console.analysis.findings import is_calm, sentence_key
from tfscale.console.engine.events import LinkState
from tfscale.console.engine.model import Snapshot, TaskView
from tfscale.core.cluster.task import Task, subject_task
from tfscale.core.records.diagnosis import Diagnosis


def named_tasks(snapshot: Snapshot) -> tuple[Task, ...]:
    """Return the tasks that the sentence blames, in the order of the cluster; none where it blames nobody."""
    top, still = snapshot.findings.top, snapshot.findings.condition.stillness
    subjects = [] if top is None else [top.subject, *top.together]
    if still is not None and not (still.is_expected or still.is_ending):
        subjects += still.late
    if not subjects:
        return tuple(view.task for view in snapshot.tasks if _is_cut_off(view))
    tasks = set(map(subject_task, subjects))
    return tuple(view.task for view in snapshot.tasks if has_trouble(view) and view.task in tasks)


def suspicious_tasks(snapshot: Snapshot) -> tuple[Task, ...]:
    """Return the tasks with trouble of their own, those that the sentence blames first."""
    named = named_tasks(snapshot)
    others = (view.task for view in snapshot.tasks if view.task not in named and has_trouble(view))
    return (*named, *others)


def named_stragglers(snapshot: Snapshot) -> tuple[Diagnosis, ...]:
    """Return the stragglers that the sentence names, in their order; none while it is about anything else."""
    top = snapshot.findings.top
    if top is None or top.kind != "straggler" or snapshot.command is not None or "phase" not in top.evidence:
        return ()
    found = {
        each.subject: each
        for each in snapshot.findings.diagnoses
        if each.end is None and sentence_key(each) == sentence_key(top)
    }
    return tuple(found[name] for name in top.together or (top.subject,) if name in found)


def next_culprit(snapshot: Snapshot, after: Task | None) -> Task | None:
    """Return the first task with trouble, or the one that follows `after`; None without trouble."""
    found = suspicious_tasks(snapshot)
    return found[(found.index(after) + 1) % len(found) if after in found else 0] if found else None


def has_trouble(view: TaskView) -> bool:
    """Decide whether a task has a flag that is no mere news."""
    if view.link.state is not LinkState.UP and _is_cut_off(view):
        return True
    return view.awaited is not None or (bool(view.diagnoses) and not all(map(is_calm, view.diagnoses)))


def _is_cut_off(view: TaskView) -> bool:
    return view.is_stale and view.link.state is not LinkState.CONNECTING and not view.has_ended
