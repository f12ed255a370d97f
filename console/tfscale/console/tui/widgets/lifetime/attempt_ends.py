"""Ends of a task's attempts: when, how, and why, where a crash or an order explains it."""

from __future__ import annotations

from collections.abc import Iterator

from tfscale.console.engine.model import Snapshot, TaskView
from tfscale.core.cluster.task import CLUSTER
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.text import clock, exit_phrase

_MOST = 3
"""Newest ends that are shown."""
_LAST_WORDS = 3
"""Lines of the task's log."""
_BEFORE, _AFTER = 5.0, 120.0
"""Seconds before and after the begin of a crash in which an end may be part of it: clocks of hosts differ, and the
others end when they miss the first."""


def attempt_ends(view: TaskView, snapshot: Snapshot) -> Iterator[tuple[str, bool]]:
    """Yield a line for each attempt's end, the newest first, and whether it is quoted from the log."""
    ends = snapshot.history.endings(view.task, snapshot.at) if snapshot.history else ()
    for number, status in enumerate(reversed(ends[-_MOST:])):
        assert status.exit is not None
        when = f"{clock(status.exit.at)}   generation {status.generation}   attempt {status.attempt}"
        crash = _crash_of(str(view.task), status.exit.at, snapshot)
        why = (status.reason, "" if crash is None else _cause(str(view.task), crash))
        yield "   ".join([when, exit_phrase(status.exit), *filter(None, why)]), False
        if number == 0 and not status.exit.well:
            yield from ((line.strip(), True) for line in status.exit.log[-_LAST_WORDS:])
    if len(ends) > _MOST:
        yield f"{len(ends) - _MOST} more before", False


def _crash_of(task: str, at: float, snapshot: Snapshot) -> Diagnosis | None:
    found = (entry.diagnosis for entry in reversed(snapshot.timeline) if entry.kind == "crash")
    return next(
        (
            each
            for each in found
            if each and each.begin - _BEFORE <= at <= each.begin + _AFTER and task in (each.subject, *_followers(each))
        ),
        None,
    )


def _followers(crash: Diagnosis) -> tuple[str, ...]:
    followers = crash.evidence.get("followers")
    return followers if isinstance(followers, tuple) else ()


def _cause(task: str, crash: Diagnosis) -> str:
    """Return why a task ended in a crash: whom it followed, or the line of its log that explains it."""
    if task == crash.subject:
        return str(crash.evidence.get("line") or "")
    return "as all others did" if crash.subject == CLUSTER else f"because {crash.subject} had ended"
