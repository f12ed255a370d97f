"""Restarts of failed tasks in the words of a failure: to come, begun, or given up, as agents tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tfscale.console.analysis.observed.observed_task import ALIVE, ObservedTask
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.text import clock, listing


def with_restart(crash: Diagnosis, tasks: Mapping[str, ObservedTask]) -> Diagnosis:
    """Return the crash with what the agents of its tasks do about it, as far as they have told."""
    followers = crash.evidence.get("followers")
    names = (crash.subject, *(followers if isinstance(followers, tuple) else ()))
    failed = [tasks[name] for name in names if name in tasks]
    begun = [each for each in failed if each.state in ALIVE and each.last_end and each.last_end.at >= crash.begin]
    if begun:
        again = f"; {listing([each.name for each in begun])} {'is' if len(begun) == 1 else 'are'} started again"
        return replace(crash, sentence=crash.sentence + again, evidence={**crash.evidence, "restart_at": begun[0].at})
    due = next((each.status.restart_at for each in failed if each.status and each.status.restart_at), None)
    evidence = crash.evidence if due is None else {**crash.evidence, "restart_at": due}
    return replace(crash, sentence=crash.sentence + announced(failed), evidence=evidence)


def announced(tasks: Iterable[ObservedTask]) -> str:
    """Return the next part of a sentence: what the first agent tells that does something about its task's failure."""
    for task in tasks:
        status = task.status
        if status is None or not (task.up and task.is_over) or task.ended_well:
            continue
        if status.restart_at is not None:
            return f"; restarts by itself at {clock(status.restart_at)} ({status.reason})"
        if status.reason:
            return f"; the agent of {task.name}: {status.reason}"
    return ""
