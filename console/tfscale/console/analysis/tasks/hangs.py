"""Stillness that is no passing pause: `still`, and `hang` once it is far longer than normal.

With a plain reason, such as a signal that has stopped a process, it is a hang without a minute of waiting.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfscale.console.analysis.condition.cluster_condition import ClusterCondition
from tfscale.console.analysis.condition.process_doing import AT_WORK, ENDED, SILENT, STARTING, STOPPED, Doing
from tfscale.console.analysis.condition.stillness import Stillness
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.tasks.not_started import is_starting
from tfscale.core.cluster.task import CLUSTER
from tfscale.core.failure.hang_limits import BUSY, hang_limit
from tfscale.core.records.diagnosis import Diagnosis, Evidence
from tfscale.core.text import clock, duration, listing

EVENT = 10.0
"""Seconds without a step from which on it is an event: pauses of some seconds (the next file, garbage collection) come
in every run, and an operator who waits 10 s has lost little."""
STEPS = 10.0
"""Multiple of the usual step from which on a stillness is an event: where a step takes seconds, a late one may take
10 s."""
PAUSES = 2.0
"""Multiple of a usual pause from which on a stillness is an event: pauses between epochs differ, but not by as much."""
_MANY = 8
"""Tasks above which a stillness is one finding of the cluster, not one a task: more names fit on no screen."""


def hangs(tasks: Sequence[ObservedTask], condition: ClusterCondition) -> list[Diagnosis]:
    """Return a diagnosis for each task that keeps the others waiting, or one for the cluster; none in training.

    Failed tasks are left out: their crash is told.
    """
    still = condition.stillness
    if still is None or still.is_ending or _has_failed(tasks, still) or not _is_event(still, condition):
        return []
    known = {task.name: task for task in tasks}
    if still.late and all(does.kind == STARTING and _is_coming(known[name]) for name, does in still.late.items()):
        return []  # the headline tells it, and it is no trouble
    longest = max((task.longest_gap for task in tasks if task.meets), default=0.0)
    if still.is_expected or not 0 < len(still.late) <= _MANY:
        busy = any(known[name].is_at_work for name in still.late or still.waiting)
        is_early = still.is_own_work and still.seconds <= hang_limit(longest)
        return [] if is_early else [_of_cluster(_kind(still, busy, longest), still)]
    return [
        _of_task(_kind(still, known[name].is_at_work, longest), name, does, still) for name, does in still.late.items()
    ]


def _is_coming(task: ObservedTask) -> bool:
    return is_starting(task) or (task.is_at_work and task.age < BUSY)


def _is_event(still: Stillness, condition: ClusterCondition) -> bool:
    """Decide whether the cluster has stood still for longer than a passing pause."""
    event = max(EVENT, STEPS * (condition.usual_step or 0.0), PAUSES * condition.usual_pause)
    return still.seconds > (BUSY if still.is_expected else event)


def _kind(still: Stillness, is_at_work: bool, longest: float) -> str:
    """Return `hang` or `still`, by whether the tasks that make no step are at work, and by the longest normal gap."""
    kinds = {does.kind for does in still.late.values()}
    if STOPPED in kinds and not is_at_work:
        return "hang"
    # A process at work is not stuck: a step may compute for minutes.
    limit = max(BUSY, hang_limit(longest)) if is_at_work else hang_limit(longest)
    # Of a task that is not heard nobody knows whether it hangs; one that has left, or is only starting, does not.
    return "hang" if still.seconds > limit and not kinds & {SILENT, ENDED, STARTING} else "still"


def _has_failed(tasks: Sequence[ObservedTask], still: Stillness) -> bool:
    return any(
        does.kind == ENDED and not task.ended_well for task in tasks if (does := still.late.get(task.name)) is not None
    )


def _of_task(kind: str, name: str, does: Doing, still: Stillness) -> Diagnosis:
    """Return the diagnosis of one task that keeps the others waiting."""
    is_inferred = not (does.is_certain or does.kind == SILENT or still.is_out_of_step)
    sentence = _stuck(name, does, still) if kind == "hang" else still.sentence
    if kind == "hang" and is_inferred:
        sentence += "; see its log and its stack"
    return _diagnosis(kind, name, still, sentence, does.kind)


def _stuck(name: str, does: Doing, still: Stillness) -> str:
    if still.is_out_of_step:
        quiet = f"no step for {duration(still.seconds)} (since {clock(still.since)})"
        return f"{still.explanation}; {quiet}"
    others = f"{listing(list(still.waiting))} {'waits' if len(still.waiting) == 1 else 'wait'}"
    why = (
        f"{does.clause}; {others}"
        if does.kind == STOPPED
        else f"it has not entered the all-reduce in which {others}" + (f"; {does.clause}" if does.clause else "")
    )
    how = "made no step" if does.kind == AT_WORK else "been stuck"
    return f"{name} has {how} for {duration(still.seconds)} (since {clock(still.since)}): {why}"


def _of_cluster(kind: str, still: Stillness) -> Diagnosis:
    return _diagnosis(kind, CLUSTER, still, still.sentence, next((does.kind for does in still.late.values()), None))


def _diagnosis(kind: str, subject: str, still: Stillness, sentence: str, does: str | None) -> Diagnosis:
    severity = "critical" if kind == "hang" else "warning"
    evidence: Evidence = {
        "quiet": still.seconds,
        "doing": does,
        "waiting": still.waiting or None,
    }
    shares = kind == "still" and subject != CLUSTER and len(still.late) > 1
    together = tuple(still.late) if shares else ()
    return Diagnosis(kind, subject, still.since, None, severity, sentence, evidence=evidence, together=together)
