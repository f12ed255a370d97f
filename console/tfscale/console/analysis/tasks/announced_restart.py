"""Restarts that agents have announced, and those that they have begun, in the words of a failure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tfscale.console.analysis.observed.observed_task import ALIVE, ObservedTask
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.text import clock, listing


def with_restart(crash: Diagnosis, failed: Iterable[ObservedTask]) -> Diagnosis:
    """Return the crash with the restart that the agents of its tasks have announced or begun, if any."""
    failed = list(failed)
    begun = [each for each in failed if each.state in ALIVE and each.last_end and each.last_end.at >= crash.begin]
    if begun:
        names, at = listing([each.name for each in begun]), begun[0].at
        sentence = f"{crash.sentence}; {names} {'is' if len(begun) == 1 else 'are'} started again"
        return replace(crash, sentence=sentence, evidence={**crash.evidence, "restart_at": at})
    words, at = announced(failed)
    return (
        replace(crash, sentence=crash.sentence + words, evidence={**crash.evidence, "restart_at": at}) if at else crash
    )


def announced(failed: Iterable[ObservedTask]) -> tuple[str, float | None]:
    """Return (the next part of a sentence, Unix seconds) for the first restart that an agent has announced."""
    for task in failed:
        if task.status is not None and (at := task.status.restart_at) is not None:
            return f"; restarts by itself at {clock(at)} ({task.status.reason})", at
    return "", None
