"""The sentence for the top line of every screen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

from tfscale.console.analysis.condition.cluster_condition import ClusterCondition, Condition
from tfscale.console.analysis.condition.start_stages import Start
from tfscale.console.analysis.conspicuous import Conspicuous, Faster
from tfscale.console.analysis.finding_kinds import Group, kind_of
from tfscale.console.analysis.findings import SubjectSummary, is_calm
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.observed.out_of_step import how_it_left, left_early
from tfscale.console.analysis.run.pace_drop import Drop
from tfscale.console.analysis.run.saturation import BESIDE_STEPS
from tfscale.console.analysis.stragglers.straggler_rule import ShortHistory
from tfscale.console.analysis.tasks.announced_restart import announced
from tfscale.console.analysis.tasks.not_started import is_starting, why_missing
from tfscale.console.analysis.tasks.starting import coming_up, how_they_come_up, starting
from tfscale.core.cluster.task import Role
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.probe_status import ProbeStatus
from tfscale.core.records.task_status import Exit, TaskState
from tfscale.core.text import (
    clock,
    duration,
    exit_clause,
    listing,
    no_contact,
    not_heard_so_far,
    plural,
    step_rate,
    times,
)

_HEALTHY, _NOBODY = "healthy: ", ", no straggler"


def quoted(
    diagnoses: Sequence[Diagnosis], tasks: Sequence[ObservedTask], condition: ClusterCondition
) -> Diagnosis | None:
    """Return the first open diagnosis, in the order of their weight, that the headline quotes; None without one.

    Calm diagnoses are not quoted. For a cluster without steps no diagnosis about the pace is quoted, and a stillness is
    quoted unless a diagnosis explains it.
    """
    names = {task.name: task for task in tasks}
    candidates = [
        each
        for each in diagnoses
        if each.end is None and not is_calm(each) and not _is_mended(each, names.get(each.subject))
    ]
    if condition.kind is not Condition.TRAINING:
        candidates = [each for each in candidates if kind_of(each).group is not Group.PACE or condition.may_be_judged]
    if condition.stillness is not None:
        candidates = [each for each in candidates if kind_of(each).stops_training]
    return candidates[0] if candidates else None


def headline(
    diagnoses: Sequence[Diagnosis],
    tasks: Sequence[ObservedTask],
    condition: ClusterCondition,
    *,
    steps_per_second: float | None = None,
    conspicuous: Conspicuous | Faster | None = None,
    stages: Sequence[SubjectSummary] = (),
    short: ShortHistory | None = None,
    late: Collection[str] = (),
    drop: Callable[[], Drop | None] = lambda: None,
    starts: Mapping[str, Start] = MappingProxyType({}),
) -> str:
    """Return the sentence of the quoted diagnosis, else the rate of training, else the reason why there is none.

    Args:
        diagnoses: all of them, in the order of their weight.
        tasks: all of the cluster.
        condition: of the cluster now.
        steps_per_second: of the whole cluster; None where it makes none now.
        conspicuous: who is so slow or so fast of late that nobody is healthy.
        stages: of the pipeline in a task, newest steps.
        short: what is known of the steps, while it is too short to name a straggler.
        late: tasks that wait for their data longer than they work.
        drop: function that returns how much faster the cluster was within the last minute, None where it was not.
        starts: stages of the tasks that have made no step, by name.
    """
    if (top := quoted(diagnoses, tasks, condition)) is not None:
        return top.sentence + (announced(tasks) if top.kind == "cut_off" else "")
    if condition.stillness is not None:
        return condition.stillness.sentence + announced(tasks)
    if trouble := _trouble(tasks):
        return trouble + announced(tasks)
    if condition.kind is Condition.TRAINING and steps_per_second is not None:
        unnamed = _unnamed(tasks, steps_per_second, conspicuous, late, stages, short)
        manner = _manner(diagnoses)
        if manner or (faster := drop()) is None:
            return unnamed + manner
        slower = f"{times(faster.times)} as fast up to {clock(faster.until)}"
        return f"{unnamed.removeprefix(_HEALTHY).removesuffix(_NOBODY)}; {slower}"
    return _waiting(tasks, condition, starts)


def _is_mended(diagnosis: Diagnosis, task: ObservedTask | None) -> bool:
    """Decide whether a crash lies in the past: it is quoted once, even if the task is started again by then."""
    if diagnosis.kind != "crash" or task is None or task.status is None:
        return False
    is_later = task.status.started is not None and task.status.started > diagnosis.begin
    return task.state is TaskState.STARTING or (task.running and is_later)


def _manner(diagnoses: Sequence[Diagnosis]) -> str:
    """Return the words for what takes most of the time of a healthy cluster besides the steps."""
    limits = (each for each in diagnoses if each.end is None and each.evidence.get("resource") in BESIDE_STEPS)
    return next((f"; {each.statement or each.sentence}" for each in limits), "")


def all_ended(exits: Sequence[Exit]) -> str:
    """Return how all tasks have ended. Tasks that only served a task that exited with 0 were asked to end after it."""
    if not all(end.well for end in exits):
        return "all tasks have ended"
    return "all tasks have ended well" if any(end.code == 0 for end in exits) else "all tasks have ended as asked"


def _trouble(tasks: Sequence[ObservedTask]) -> str | None:
    """Return a sentence about silent agents or ended tasks; None without any.

    Before the first step an agent that was never heard may be about to start.
    """
    # An agent may leave once its task has ended: how that was is known.
    if unreachable := [task for task in tasks if not task.up and not task.is_over]:
        names = [task.name for task in unreachable]
        is_new = all(task.at is None for task in unreachable) and all(task.progressed is None for task in tasks)
        return not_heard_so_far(names) if is_new else no_contact(names)
    ended = [task for task in tasks if task.is_over]
    if ended and len(ended) == len(tasks):
        exits = [task.status.exit if task.status else None for task in ended]
        return all_ended([end for end in exits if end is not None]) if all(exits) else "all tasks have ended"
    if (left := left_early(tasks)) is not None:
        return how_it_left(left)
    if ended:
        if failed := sorted((task for task in ended if not task.ended_well), key=lambda task: task.ended_at):
            return "; ".join(
                f"{task.name} {exit_clause(task.status.exit if task.status else None)}" for task in failed[:2]
            )
        return f"{listing([task.name for task in ended])} {'has' if len(ended) == 1 else 'have'} ended"
    return None


def _unnamed(
    tasks: Sequence[ObservedTask],
    steps_per_second: float,
    conspicuous: Conspicuous | Faster | None,
    late: Collection[str],
    stages: Sequence[SubjectSummary],
    short: ShortHistory | None,
) -> str:
    """Return the pace of a cluster without a known fault: healthy, where enough is known."""
    coordinator = next((task.coordinator for task in tasks if task.coordinator), None)
    if coordinator is not None:
        coming = coming_up(tasks)
        names = {task.name for task in coming}
        working = sum(worker.finished > 0 and worker.worker not in names for worker in coordinator.workers)
        manner = f"{plural(working, 'worker')} at work, {step_rate(steps_per_second)} together"
        return f"{manner}; {how_they_come_up(coming)}" if coming else _healthy(manner, short)
    training = [task for task in tasks if task.meets and task.progressed is not None]
    if len(training) <= 1:
        manner = (_all_reduces(training[0].probe) if training else "") + _bubble(stages)
        who = listing([task.name for task in training])
        return _healthy(f"{who} trains, {step_rate(steps_per_second)}{manner}", short)
    roles = {task.task.role for task in training}
    noun = "worker" if roles <= {Role.WORKER, Role.CHIEF} else "task"
    rate = f"{step_rate(steps_per_second)}{_all_reduces(training[0].probe)}"
    in_step = f"{plural(len(training), noun)} in step, {rate}"
    if conspicuous is None:
        return _healthy(in_step, short) + ("" if short else _NOBODY)
    if isinstance(conspicuous, Faster):
        return f"{in_step}; {_faster_than_most(conspicuous)}" if conspicuous.is_sure else in_step
    if conspicuous.task in late and conspicuous.ratio is not None:
        return f"{in_step}; their newest steps wait for data, not judged yet"
    if conspicuous.ratio is None and not conspicuous.ago:
        # Who looks slow is told beside the headline.
        return in_step if short is None else _healthy(in_step, short)
    return f"{in_step}; {_of_late(conspicuous)}"


def _faster_than_most(faster: Faster) -> str:
    is_one = len(faster.tasks) == 1
    return (
        f"{listing(faster.tasks)} {'is' if is_one else 'are'} {times(faster.times)} as fast as the other "
        f"{faster.others}: they are slow, or {'it has' if is_one else 'these have'} less to do"
    )


def _of_late(conspicuous: Conspicuous) -> str:
    task, ratio, ago = conspicuous
    if ratio is None:
        return f"{task} looked slow until {duration(ago)} ago"
    if ago:
        return f"{task} was {ratio:.1f}x slower than its peers until {duration(ago)} ago"
    return f"{task} is {ratio:.1f}x slower than its peers in its newest steps, not judged yet"


def _healthy(manner: str, short: ShortHistory | None) -> str:
    return f"{_HEALTHY}{manner}" if short is None else f"{manner}; {_too_short(short)} to name a straggler"


def _too_short(short: ShortHistory) -> str:
    if short.steps is not None:
        return f"{plural(short.steps, 'step')} {'is' if short.steps == 1 else 'are'} too few"
    seconds = max(1, int(short.seconds))
    return f"{seconds} s {'is' if seconds == 1 else 'are'} too short"


def _all_reduces(probe: ProbeStatus | None) -> str:
    """Return the words for steps that are not one batch and one all-reduce."""
    if probe is not None and probe.local_steps:
        return f", 1 all-reduce in {probe.local_steps} steps"
    return f", 1 all-reduce for {probe.micro_batches} micro-batches" if probe and probe.micro_batches else ""


def _bubble(stages: Sequence[SubjectSummary]) -> str:
    """Say how long the stages of a pipeline wait for each other."""
    known = [(stage.compute, stage.input) for stage in stages if stage.compute and stage.input is not None]
    if not known:
        return ""
    idle = sum(waits for _, waits in known)
    return f", {plural(len(known), 'stage')}, bubble {idle / (idle + sum(busy for busy, _ in known)):.0%}"


def _waiting(tasks: Sequence[ObservedTask], condition: ClusterCondition, starts: Mapping[str, Start]) -> str:
    needed = [task for task in tasks if task.task.role is not Role.EVALUATOR]
    if condition.kind is Condition.UNKNOWN:
        agents = "agent" if len(needed) == 1 else "agents"
        return f"nothing is heard from the {agents}: what the training does is not known"
    if condition.kind is Condition.STARTING and (begins := starting(needed, starts)) is not None:
        return begins
    absent = [(task, why) for task in needed if (why := why_missing(task)) is not None]
    absent = [each for each in absent if not is_starting(each[0])] or absent
    if absent:
        task, why = absent[0]
        more = len(absent) - 1
        others = f"; {more} more {'is' if more == 1 else 'are'} missing" if more else ""
        return f"waiting for {task.name}: {why}{others}"
    running = f"{plural(len(needed), 'task')} running"
    if condition.kind is Condition.TRAINING:
        if condition.resumed is not None:
            return f"{running}, steps are made again"
        return f"{running}, the first steps are being measured"
    return f"{running}, waiting for the first step"
