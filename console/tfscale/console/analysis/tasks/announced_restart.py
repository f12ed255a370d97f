"""Restarts that agents have announced, in the words of a crash."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.text import clock


def with_restart(crash: Diagnosis, failed: Iterable[ObservedTask]) -> Diagnosis:
    """Return the crash with the restart that the agents of its tasks have announced, if any."""
    for task in failed:
        if task.status is not None and (at := task.status.restart_at) is not None:
            sentence = f"{crash.sentence}; restarts by itself at {clock(at)} ({task.status.reason})"
            return replace(crash, sentence=sentence, evidence={**crash.evidence, "restart_at": at})
    return crash
