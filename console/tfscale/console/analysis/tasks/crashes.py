"""Crashes: which task died first, and which followed.

In synchronous training one death takes all tasks down: peers exit 1 within about 2 s ("Collective ops is aborted"). The
first failure is the culprit; the others are reported as its consequences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tfscale.console.analysis.condition.process_doing import ENDED, SILENT, STOPPED, doing, unheard_since
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.observed.out_of_step import (
    evaluated_alone,
    how_it_evaluates,
    how_it_left,
    how_they_part,
    left_early,
    parted,
)
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.task import CLUSTER
from tfscale.core.failure.clues import Clue
from tfscale.core.failure.failure_kinds import LAST_WORDS, OUT_OF_STEP, PEER
from tfscale.core.failure.task_failure import CLOCK_DOUBT, PRIMARY, SETTLE, Failure, culprit, failure_of
from tfscale.core.failure.task_signals import TaskSignal
from tfscale.core.failure.uncaught_exception import shortened
from tfscale.core.log_clues import EXPLAINED
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.text import clock, duration, listing, signal_name

TOGETHER = 15.0
"""Seconds within which failures of one generation are one incident: peers follow within 2 s, servers and evaluators
some seconds later. With less one incident would be several, with more two incidents would be one. A failure whose log
names a task of the incident belongs to it however late: on a busy host some peers take long to end. A signal from
outside follows no peer's death: it belongs to an incident only within `CLOCK_DOUBT`."""

_IN_SENTENCE = 200
"""Characters of a log's line that a sentence shows: with fewer a chain of two exceptions loses its reason."""
_MOST_REASONS = 2
"""Tasks with other reasons that a sentence names beside the first."""
_CUT_FELT = 30.0
"""Seconds after a silence in which others may still fail because of it: TensorFlow gives a peer up some ten seconds
after its last heartbeat. With less such failures have no cause, with more an unrelated failure gets this cause."""
_CUT_LEAST = 5.0
"""Shortest silence of which others fail: a busy host is silent for three seconds now and then, and a connection of
TensorFlow outlives that. With more the shortest cuts that end a training have no cause."""

HOST_MEMORY = "host_memory"
"""Evidence (`reason`) of a task that the kernel has killed for want of memory."""
UNREACHED = "unreached"
"""Evidence (`reason`) of a running task to which the others could not connect."""


@dataclass(slots=True)
class _Incident:
    failures: list[Failure]
    noticed: float
    is_reported: bool = False
    apart: frozenset[str] = frozenset()
    """Tasks that were out of step: an agent that comes back later no longer knows it."""

    def includes(self, failure: Failure) -> bool:
        anchor = self.failures[0]
        is_near = any(_is_near(each, failure) for each in self.failures if each is anchor or each.is_from_outside)
        return failure.generation == anchor.generation and (is_near or self.is_named_by(failure))

    def is_named_by(self, failure: Failure) -> bool:
        return failure.followed and any(failure.named == each.task for each in self.failures)


@dataclass(slots=True)
class CrashWatch:
    """Failures, collected into incidents. An incident ends when its culprit is started again."""

    addresses: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """The task at each (host, port): some logs name a peer by its address alone."""
    _incidents: list[_Incident] = field(default_factory=list)
    _seen: dict[str, tuple[int, int]] = field(default_factory=dict)

    def diagnose(self, tasks: Mapping[str, ObservedTask], now: float) -> list[Diagnosis]:
        """Return one open `crash` for each incident, with the culprit as its subject."""
        # A console that comes late learns of many ends at once: what each follows is known from those before it.
        for task in sorted(tasks.values(), key=lambda task: task.ended_at):
            self._note(task, now)
        self._incidents = [one for one in self._incidents if not (one.is_reported and _is_over(one, tasks))]
        # Where every task has ended no report is missing.
        is_all = all(task.is_over for task in tasks.values())
        settled = [incident for incident in self._incidents if is_all or now - incident.noticed >= SETTLE]
        for incident in settled:
            incident.is_reported = True
        return [_described(incident, tasks, now) for incident in settled if not _was_requested(incident, tasks)]

    def _note(self, task: ObservedTask, now: float) -> None:
        if task.status is None or task.at is None or self._seen.get(task.name) == task.attempt:
            return
        failure = failure_of(task.name, task.status, task.at)
        if failure is None:
            return
        self._seen[task.name] = task.attempt
        failure = self._with_peer(failure)
        # Of two incidents at once the one that its log names goes first.
        incidents = sorted(self._incidents, key=lambda incident: not incident.is_named_by(failure))
        if incident := next((each for each in incidents if each.includes(failure)), None):
            incident.failures.append(failure)
        else:
            self._incidents.append(_Incident([failure], noticed=now))

    def _with_peer(self, failure: Failure) -> Failure:
        """Return the failure with the task that its log names, by name or by address."""
        clue = failure.clue
        if clue is None:
            return failure
        return replace(failure, named=clue.culprit or (self.addresses.get(clue.address) if clue.address else None))


def _is_near(one: Failure, other: Failure) -> bool:
    """Decide whether the later of two failures may belong to the incident of the earlier."""
    first, later = sorted((one, other), key=lambda failure: failure.at)
    may_follow = not later.is_from_outside or later.has_lost_a_peer(first.at)
    return later.at - first.at <= (TOGETHER if may_follow else CLOCK_DOUBT)


def _is_over(incident: _Incident, tasks: Mapping[str, ObservedTask]) -> bool:
    """Decide whether the culprit was started again. Its next end is another incident."""
    first = culprit(incident.failures)
    return tasks[first.task].attempt > (first.generation, first.attempt)


def _was_requested(incident: _Incident, tasks: Mapping[str, ObservedTask]) -> bool:
    """Decide whether a peer was stopped on request before: its end takes the others down like any death."""
    first = culprit(incident.failures)
    ends = (task.status.exit for task in tasks.values() if task.status and task.attempt[0] == first.generation)
    asked = (end.at for end in ends if end and end.requested)
    return not first.primary and any(first.at - TOGETHER <= at <= first.at + CLOCK_DOUBT for at in asked)


def _described(incident: _Incident, tasks: Mapping[str, ObservedTask], now: float) -> Diagnosis:
    """Return the crash; its cause is a worker that left well or evaluated alone, where the others failed of that."""
    first = culprit(incident.failures)
    left = left_early(list(tasks.values()))
    if left is not None and not first.primary and first.followed and left.attempt[0] == first.generation:
        return _of_other_program(left.name, how_it_left(left), incident, code=0)
    meeting = [task for task in tasks.values() if task.meets]
    is_out_of_step = any(each.clue is not None and each.clue.kind == OUT_OF_STEP for each in incident.failures)
    silent = _silent(tasks, now)
    if is_out_of_step and not silent and (alone := evaluated_alone(meeting)):
        return _of_other_program(alone[0].name, how_it_evaluates(alone, meeting), incident, code=first.code)
    behind = parted(meeting, silent) or [task for task in meeting if task.name in incident.apart]
    if is_out_of_step and behind:
        incident.apart = frozenset(task.name for task in behind)
        return _of_other_program(behind[0].name, how_they_part(behind, meeting), incident, code=first.code)
    return _describe(incident, tasks, now)


def _of_other_program(subject: str, what: str, incident: _Incident, code: int | None) -> Diagnosis:
    """Return the crash of all, caused by the task whose program differs from the others'."""
    failures = sorted(incident.failures, key=lambda failure: failure.at)
    sentence = f"{what}; {_ends(failures)} for that at {clock(failures[0].at)}"
    crash = _crash(subject, culprit(failures), failures, sentence)
    return replace(crash, evidence={**crash.evidence, "code": code, "signal": None, "reason": OUT_OF_STEP})


def _describe(incident: _Incident, tasks: Mapping[str, ObservedTask], now: float) -> Diagnosis:
    first = culprit(incident.failures)
    others = sorted((each for each in incident.failures if each is not first), key=lambda failure: failure.at)
    begin = f"{first.task} {first.how} at {clock(first.at)}"
    if first.signal == TaskSignal.SIGKILL and not _explains(first.clue) and tasks[first.task].is_killed_for_memory:
        begin = f"{first.task} was killed by the kernel at {clock(first.at)}: its host or its cgroup had no memory left"
        crash = _crash(first.task, first, others, f"{begin}{_rest(first, others)}")
        return replace(crash, evidence={**crash.evidence, "reason": HOST_MEMORY})
    if others and all(_is_alike(first, other) for other in others) and len(incident.failures) == len(tasks):
        whole = "both tasks" if len(tasks) == 2 else f"all {len(tasks)} tasks"
        return _crash(CLUSTER, first, others, f"{whole} failed alike at {clock(first.at)}{_why(first)}")
    if (unreached := _unreached(first, tasks)) is not None:
        subject, what = unreached
        ended = sorted(incident.failures, key=lambda failure: failure.at)
        crash = _crash(subject, first, ended, f"{what}; {_ends(ended)} of that at {clock(ended[0].at)}")
        return replace(crash, evidence={**crash.evidence, "reason": UNREACHED})
    if not first.followed or (gone := _gone(incident, first, tasks, now)) is None:
        return _crash(first.task, first, others, f"{begin}{_why(first)}{_rest(first, others)}")
    subject, what = gone
    if subject == first.task:
        rest = [other for other in others if other.task != first.named]
        return _crash(subject, first, others, f"{begin}: {what}{_rest(first, rest)}")
    lost = [first, *others]
    ended = [failure for failure in lost if failure.task != subject] or lost
    return _crash(subject, first, lost, f"{what}; {_ends(ended)} at {clock(first.at)}{_peers_gone(ended)}")


def _explains(clue: Clue | None) -> bool:
    return clue is not None and clue.kind != LAST_WORDS


def _unreached(first: Failure, tasks: Mapping[str, ObservedTask]) -> tuple[str, str] | None:
    """Return (subject, facts) of the running task to which the first failed task could not connect."""
    named, address = tasks.get(first.named or ""), first.clue.address if first.clue else None
    if named is None or not named.up or not first.followed or address is None:
        return None
    ran = named.ended_at > first.at + CLOCK_DOUBT if named.is_over else named.running and not named.stopped
    place = f"{named.name} at {Address(*address)}"
    what = f"{first.task} could not reach {place}, whose process ran (a closed port, or a firewall?)"
    return (named.name, what) if ran else None


def _gone(incident: _Incident, first: Failure, tasks: Mapping[str, ObservedTask], now: float) -> tuple[str, str] | None:
    """Return (subject, clause) about the task whose connection the failed tasks lost; None if unknown.

    A log says only that a connection was lost; whether the task behind it died, its own agent knows.
    """
    failed = {failure.task: failure for failure in incident.failures}
    if (cut := _cut_off(incident, first, tasks)) is not None:
        state = "has ended" if cut.is_over else "runs"
        return cut.name, f"the agent of {cut.name} was out of contact {_span(cut.cut)}, and is back: its task {state}"
    silent = _silent(tasks, now)
    named = first.named or (silent[0].name if len(silent) == 1 else None)
    if named in failed:
        later = failed[named].at - first.at
        how = f"which {failed[named].how} only {duration(later)} later"
        return (first.task, f"it lost the connection to {named}, {how}") if later > CLOCK_DOUBT else None
    if named is None:
        return None
    task = tasks.get(named)
    if task is None:
        return named, f"{named} has died, how it does not say"
    does = doing(task, now)
    if does.kind == SILENT:
        since = unheard_since([does])
        return named, f"{named} may have died, stand still or be cut off: nothing is heard from its agent{since}"
    runs = does.clause if does.kind == ENDED else "runs" + (f": {does.clause}" if does.kind == STOPPED else "")
    return first.task, f"it lost the connection to {named}, which {runs}"


def _silent(tasks: Mapping[str, ObservedTask], now: float) -> list[ObservedTask]:
    """Return the synchronous tasks whose agents are silent."""
    return [task for task in tasks.values() if task.meets and doing(task, now).kind == SILENT]


def _cut_off(incident: _Incident, first: Failure, tasks: Mapping[str, ObservedTask]) -> ObservedTask | None:
    """Return the task whose agent was out of contact for some time before the others failed, and is back."""
    if any(not failure.followed for failure in incident.failures):
        return None
    cuts = [task for task in tasks.values() if task.cut and _is_felt(*task.cut, first.at)]
    return cuts[0] if len(cuts) == 1 else None


def _is_felt(begin: float, end: float, at: float) -> bool:
    """Decide whether a silence from `begin` to `end` may be why a task failed at `at`."""
    return end - begin >= _CUT_LEAST and begin <= at <= end + _CUT_FELT


def _span(cut: tuple[float, float] | None) -> str:
    return f"from {clock(cut[0])} to {clock(cut[1])}" if cut else ""


def _crash(subject: str, first: Failure, followers: Sequence[Failure], sentence: str) -> Diagnosis:
    is_first = subject in (first.task, CLUSTER)
    return Diagnosis(
        kind="crash",
        subject=subject,
        begin=first.at,
        end=None,
        severity="critical",
        sentence=sentence,
        evidence={
            "code": first.code if is_first else None,
            "signal": None if first.signal is None else signal_name(first.signal),
            "followers": tuple(failure.task for failure in followers) or None,
            "reason": first.clue.kind if first.clue else None,
            "line": first.clue.line if first.clue else None,
            "log": tuple(first.log) or None,
        },
    )


def _why(failure: Failure) -> str:
    """Return the line of the task's log that explains the failure, as the next part of the sentence."""
    clue = failure.clue
    if clue is None or (clue.kind == PEER and failure.signal in PRIMARY):
        return ""
    if clue.kind == "explained":
        return f": {clue.line.removeprefix(EXPLAINED)}"
    line = shortened(clue.message, _IN_SENTENCE)
    return f", {clue.words}: {line}" if clue.words else f": {line}"


def _rest(first: Failure, others: Sequence[Failure]) -> str:
    """Return how the others failed: for the same reason, for their own reason, or because their peer was gone.

    Where a task's end shows none of these, no reason is told.
    """
    alike = [failure for failure in others if _is_alike(first, failure)]
    own = [failure for failure in others if failure not in alike and _has_own_reason(failure)]
    rest = [failure for failure in others if failure not in (*alike, *own)]
    lost = [failure for failure in rest if failure.is_consequence]
    bare = [failure for failure in rest if not failure.is_consequence]
    clauses = f"; {_together(first, alike)}, for the same reason" if alike else ""
    clauses += "".join(f"; {_together(first, [failure])}{_why(failure)}" for failure in own[:_MOST_REASONS])
    if more := own[_MOST_REASONS:]:
        clauses += f"; {_together(first, more)}, for reasons of their own"
    clauses += f"; {_together(first, bare)}" if bare else ""
    return f"{clauses}; {_together(first, lost)}{_peers_gone(lost)}" if lost else clauses


def _has_own_reason(failure: Failure) -> bool:
    return failure.clue is not None and failure.clue.is_own


def _is_alike(first: Failure, other: Failure) -> bool:
    """Decide whether a task failed by itself like the first one: all tasks run the same script."""
    if first.clue is None or other.clue is None or first.clue.kind != other.clue.kind:
        return False
    same = first.clue.message == other.clue.message and first.clue.kind != PEER
    # Each of them names its own shapes.
    return same or first.clue.kind == OUT_OF_STEP


def _peers_gone(followers: Sequence[Failure]) -> str:
    """Return the reason of these ends as the next part of the sentence; empty where a signal from outside made one."""
    if any(failure.is_from_outside for failure in followers):
        return ""
    return f", because {'its peer was' if len(followers) == 1 else 'their peer was'} gone"


def _together(first: Failure, failures: Sequence[Failure]) -> str:
    """Return how these tasks ended, and how much later than the first."""
    later = max(0.0, failures[-1].at - first.at)
    when = f"{duration(later)} later" if later >= 0.05 else "at once"
    return f"{_ends(failures)}, {when}"


def _ends(failures: Sequence[Failure]) -> str:
    return listing([f"{failure.task} {failure.how}" for failure in failures])
