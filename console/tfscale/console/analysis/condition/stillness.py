"""Stillness: a cluster that has trained makes no step. Its begin, the late tasks, and what their processes do."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tfscale.console.analysis.condition.process_doing import (
    AT_WORK,
    BY_SIGNAL,
    ENDED,
    SILENT,
    STARTING,
    STOPPED,
    Doing,
    doing,
    unheard_since,
)
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.observed.out_of_step import (
    alone_in_evaluation,
    between_steps,
    how_it_evaluates,
    how_it_left,
    how_they_part,
    left_early,
    missing,
)
from tfscale.console.analysis.tasks.not_started import joined
from tfscale.core.cluster.task import Role
from tfscale.core.records.task_status import TaskState
from tfscale.core.text import clock, duration, listing, plural


@dataclass(frozen=True, slots=True)
class Stillness:
    """A time without a step."""

    since: float
    """End of the last step or activity, Unix seconds on its host's clock."""
    seconds: float
    explanation: str
    """Known part of the reason, as the rest of a sentence."""
    late: Mapping[str, Doing] = field(default_factory=dict)
    """Tasks for which the others wait, and their doings; none where unknown."""
    waiting: tuple[str, ...] = ()
    """Tasks that wait for the late tasks."""
    is_expected: bool = False
    """True while work lasts in which no step is expected: a checkpoint, an evaluation, compiling."""
    is_own_work: bool = False
    """True where nobody waits in a collective, and a process is at work or the only one: a program may do other
    things than train, also once its training is over."""
    is_ending: bool = False
    """True where the other tasks have ended well and nobody waits for the late: however long it takes, it is no
    trouble."""
    is_out_of_step: bool = False
    """True where the late tasks are in a collective that the others do not enter, such as a lone evaluation."""

    @property
    def is_habit(self) -> bool:
        """True where the stillness may be usual for this program: a dead, stopped or cut-off task shows no habit."""
        return not (self.is_expected or any(each.is_certain or each.kind == SILENT for each in self.late.values()))

    @property
    def sentence(self) -> str:
        """The sentence in place of a rate."""
        if self.is_expected:
            return self.explanation
        return f"no step for {duration(self.seconds)} (since {clock(self.since)}): {self.explanation}"


def stillness_of(tasks: Sequence[ObservedTask], since: float, seconds: float, now: float) -> Stillness:
    """Describe a cluster that has made no step for `seconds`, at `now` on the observer's clock."""
    needed = [task for task in tasks if task.task.role is not Role.EVALUATOR]
    meeting = [task for task in needed if task.meets]
    does = {task.name: _doing(task, needed, now) for task in needed}
    alone, between = alone_in_evaluation(meeting), between_steps(meeting)
    if alone or between:
        late = {task.name: does[task.name] for task in alone or between}
        others = tuple(task.name for task in meeting if task.name not in late)
        why = how_it_evaluates(alone, meeting) if alone else how_they_part(between, meeting)
        return Stillness(since, seconds, why, late, others, is_out_of_step=True)
    late = _late(needed, does)
    heard = (task for task in meeting if task.running and does[task.name].kind != SILENT)
    waiting = tuple(task.name for task in heard if task.name not in late)
    busy = {name: each for name, each in (late or does).items() if each.is_expected}
    if busy and len(busy) == len(late or busy):
        return Stillness(since, seconds, _at_work(busy, waiting if late else ()), late, waiting, is_expected=True)
    if (left := left_early(needed)) is not None:
        return Stillness(since, seconds, how_it_left(left), {left.name: does[left.name]}, waiting)
    if late and _is_at_its_end(needed, late):
        run = f", and {listing(list(waiting))} {_verb(waiting, 'run')}" if waiting else ""
        why = f"{listing(list(late))} {_has(list(late))} ended well{run}"
        return Stillness(since, seconds, why, is_own_work=True, is_ending=True)
    if late:
        return Stillness(since, seconds, _why_late(late, waiting), late, waiting)
    is_own = _is_own_work(meeting, does)
    return Stillness(since, seconds, _why_nobody(meeting, does), late, waiting, is_own_work=is_own)


def _is_at_its_end(needed: Sequence[ObservedTask], late: Mapping[str, Doing]) -> bool:
    """Decide whether all missing tasks have ended well, and nobody waits for them: a chief may still save the model."""
    gone = [task for task in needed if task.name in late]
    ends = [task.status.exit if task.status else None for task in gone if late[task.name].kind == ENDED]
    well = len(ends) == len(gone) and all(end is not None and end.well for end in ends)
    return well and not any(task.is_inside for task in needed if task.running)


def _is_own_work(meeting: Sequence[ObservedTask], does: Mapping[str, Doing]) -> bool:
    if any(task.is_inside for task in meeting):
        return False
    return len(meeting) == 1 or any(does[task.name].kind == AT_WORK for task in meeting)


def _doing(task: ObservedTask, needed: Sequence[ObservedTask], now: float) -> Doing:
    """Return a task's doing; a task without a step is only starting while others have made steps."""
    does = doing(task, now)
    is_first = task.progressed is None and not (_is_served(needed) and joined(task))
    is_new = task.meets and task.running and is_first
    return Doing(STARTING, "it is only starting", "starting") if is_new and does.kind not in _TOLD else does


_TOLD = (SILENT, STOPPED)


def _late(needed: Sequence[ObservedTask], does: Mapping[str, Doing]) -> dict[str, Doing]:
    """Return the late tasks: the certain ones, else those outside of the collective, else the silent ones."""
    for kind in (ENDED, STARTING):
        of_kind = {name for name, each in does.items() if each.kind == kind}
        if of_kind and not (kind == STARTING and _may_others_work(needed, of_kind)):
            return {name: each for name, each in does.items() if each.kind in (kind, STOPPED)}
    heard = [task for task in needed if does[task.name].kind != SILENT]
    outside = missing([task for task in heard if task.meets and not _is_served(needed)])
    stopped = {name for name, each in does.items() if each.kind == STOPPED}
    silent = {name for name, each in does.items() if each.kind == SILENT}
    names = (stopped | outside) or silent
    return {name: each for name, each in does.items() if name in names}


def _may_others_work(needed: Sequence[ObservedTask], starting: Collection[str]) -> bool:
    """Decide whether only some workers start, and a coordinator may give the others their work."""
    others = [task for task in needed if task.name not in starting]
    return _is_served(needed) and any(task.task.role is Role.WORKER and task.running for task in others)


def _is_served(tasks: Sequence[ObservedTask]) -> bool:
    """Decide whether a coordinator schedules the work, so that workers report no steps and meet in no collective."""
    return any(task.coordinator is not None or task.task.role is Role.PS for task in tasks)


def _at_work(busy: Mapping[str, Doing], waiting: Sequence[str]) -> str:
    """Return the words for the work in place of steps."""
    names, first = list(busy), next(iter(busy.values()))
    since = min((each.since for each in busy.values() if each.since is not None), default=None)
    length = "" if since is None else f" since {clock(since)}"
    sentence = f"{listing(names)} {_has(names)} been {first.clause}{length}"
    return f"{sentence}; {listing(list(waiting))} {_verb(waiting, 'wait')}" if waiting else sentence


def _why_late(late: Mapping[str, Doing], waiting: Sequence[str]) -> str:
    """Return the words for the late tasks, the best known first."""
    first = next((each for each in late.values() if each.kind in (STOPPED, SILENT)), next(iter(late.values())))
    names = [name for name, each in late.items() if each.kind == first.kind]
    who, others = listing(names), f"; {listing(list(waiting))} {_verb(waiting, 'wait')}" if waiting else ""
    match first.kind:
        case "ended":
            return "; ".join(f"{name} {late[name].clause}" for name in names[:2]) + others
        case "starting":
            stops = [late[name].brief == str(TaskState.STOPPING) for name in names]
            does = "stopping" if all(stops) else "stopping or only starting" if any(stops) else "only starting"
            return f"{who} {_verb_be(names)} {does}{others}"
        case "stopped":
            if first.clause != BY_SIGNAL:
                return f"{who} cannot go on: {first.clause}{others}"
            process = "process" if len(names) == 1 else "processes"
            return f"a signal has stopped the {process} of {who}{others}"
        case "silent":
            agents, run = ("agent", "it runs") if len(names) == 1 else ("agents", "they run")
            since = unheard_since(late[name] for name in names)
            return f"nothing is heard from the {agents} of {who}{since}, so that nobody knows whether {run}{others}"
    clause = f"; {first.clause}" if first.clause and len(names) == 1 else ""
    return f"{who} {_has(names)} not entered the all-reduce in which {_others(waiting)}{clause}"


def _why_nobody(meeting: Sequence[ObservedTask], does: Mapping[str, Doing]) -> str:
    """Return the known facts where no task is late."""
    if len(meeting) == 1:
        name = meeting[0].name
        return f"{name} runs" + (f"; {does[name].clause}" if does[name].clause else "")
    inside = [task for task in meeting if task.is_inside]
    is_unseen = all(task.is_joined is False for task in meeting)
    if is_unseen or _is_served(meeting) or any(task.collective is None for task in meeting):
        starting = [task.name for task in meeting if does[task.name].kind == STARTING]
        who = f"{listing(starting)} {_verb_be(starting)} only starting; " if starting else ""
        return f"{who}who waits for whom is not known"
    if len(inside) == len(meeting):
        return f"all {plural(len(meeting), 'task')} are inside the all-reduce: look at the network between them"
    if busy := [task for task in meeting if does[task.name].kind == AT_WORK]:
        cores = listing([f"{task.cores or 0.0:.1f}" for task in busy])
        names = [task.name for task in busy]
        return f"nobody is inside the all-reduce; {listing(names)} {_verb_be(names)} at work ({cores} cores)"
    return (
        "nobody is inside the all-reduce: they are at their input or their own Python, or wait for what they share "
        "(storage, the chief's services)"
    )


def _others(waiting: Sequence[str]) -> str:
    return f"{listing(list(waiting))} {_verb(waiting, 'wait')}" if waiting else "nobody waits"


def _has(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"


def _verb_be(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _verb(names: Sequence[str], verb: str) -> str:
    return f"{verb}s" if len(names) == 1 else verb
