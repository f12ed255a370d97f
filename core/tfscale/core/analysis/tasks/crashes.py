"""Crashes: which task died first, and which ones followed.

In synchronous training one death takes all tasks down: peers exit 1 within about 2 s ("Collective ops is aborted").
The first failure is the culprit; the others are reported as its consequences.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field, replace

from tfscale.core.analysis.tasks.observed_task import ALIVE, ObservedTask
from tfscale.core.analysis.tasks.out_of_step import how_it_left, left_early
from tfscale.core.log_clues import EXPLAINED, OUT_OF_STEP, PEER, Clue, find_clue
from tfscale.core.records import Diagnosis, TaskState, TaskStatus
from tfscale.core.text import clock, duration, listing, signal_name

TOGETHER = 15.0
"""Seconds within which failures of one generation are one incident (chosen: peers follow within 2 s, and servers and
evaluators some seconds later)."""
SETTLE = 3.0
"""Seconds to wait for the other agents' reports before a culprit is named (chosen: three reports)."""
CLOCK_DOUBT = 2.0
"""Seconds by which differing clocks of hosts, and TensorFlow's own reaction, can reverse the order of two exits."""

_IN_SENTENCE = 160
"""Characters of a log's line that a sentence shows."""

_PRIMARY = {signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE}


@dataclass(frozen=True, slots=True)
class Failure:
    """The end of one task's process, not well and not on request."""

    task: str
    generation: int
    attempt: int
    at: float
    code: int | None
    signal: int | None
    lost: bool = False
    log: tuple[str, ...] = ()
    clue: Clue | None = None
    """The line at the end of its log that explains the failure, None where there is none."""

    @property
    def primary(self) -> bool:
        """True for a death that no peer's death causes (TensorFlow aborts the peers with exit 1 or SIGABRT)."""
        return self.signal in _PRIMARY or (self.clue is not None and self.clue.kind not in (PEER, "exception"))

    @property
    def followed(self) -> bool:
        """True where it ended, by its own log, because another task had died."""
        return self.clue is not None and self.clue.kind == PEER and self.signal not in _PRIMARY

    @property
    def how(self) -> str:
        if self.signal is not None:
            return f"was killed by {signal_name(self.signal)}"
        if self.code is not None:
            return f"exited {self.code}"
        return "was lost with its shim" if self.lost else "ended, nobody knows how"


def failure_of(task: str, status: TaskStatus, at: float) -> Failure | None:
    """Return the failure that a status reports, None for a task that runs, ended well or was stopped on request."""
    ended = status.exit
    if status.state is TaskState.LOST:
        return Failure(task, status.generation, status.attempt, ended.at if ended else at, None, None, lost=True)
    if status.state is not TaskState.EXITED or ended is None or ended.well:
        return None
    when, how = (status.generation, status.attempt, ended.at), (ended.code, ended.signal)
    return Failure(task, *when, *how, log=ended.log, clue=find_clue(ended.log))


def culprit(failures: list[Failure]) -> Failure:
    """Return the first failure, except those that followed another one by their own log.

    Among failures too close in time to be ordered, a primary one goes first.
    """
    failures = [failure for failure in failures if not failure.followed] or failures
    first = min(failures, key=lambda failure: failure.at)
    close = [failure for failure in failures if failure.primary and failure.at <= first.at + CLOCK_DOUBT]
    return first if first.primary or not close else min(close, key=lambda failure: failure.at)


@dataclass(slots=True)
class _Incident:
    failures: list[Failure]
    noticed: float
    is_reported: bool = False

    def includes(self, failure: Failure) -> bool:
        anchor = self.failures[0]
        return failure.generation == anchor.generation and abs(failure.at - anchor.at) <= TOGETHER


@dataclass(slots=True)
class CrashWatch:
    """Failures, collected into incidents. An incident ends when its culprit runs again."""

    _incidents: list[_Incident] = field(default_factory=list)
    _seen: dict[str, tuple[int, int]] = field(default_factory=dict)

    def diagnose(self, tasks: dict[str, ObservedTask], now: float) -> list[Diagnosis]:
        """Return one open `crash` for each incident, with the culprit as its subject."""
        for task in tasks.values():
            self._note(task, now)
        self._incidents = [one for one in self._incidents if not (one.is_reported and _is_over(one, tasks))]
        patience = SETTLE if len(tasks) > 1 else 0.0
        settled = [incident for incident in self._incidents if now - incident.noticed >= patience]
        for incident in settled:
            incident.is_reported = True
        return [_described(incident, tasks) for incident in settled if not _was_requested(incident, tasks)]

    def _note(self, task: ObservedTask, now: float) -> None:
        if task.status is None or task.at is None or self._seen.get(task.name) == task.attempt:
            return
        failure = failure_of(task.name, task.status, task.at)
        if failure is None:
            return
        self._seen[task.name] = task.attempt
        incident = next((incident for incident in self._incidents if incident.includes(failure)), None)
        if incident:
            incident.failures.append(failure)
        else:
            self._incidents.append(_Incident([failure], noticed=now))


def _is_over(incident: _Incident, tasks: dict[str, ObservedTask]) -> bool:
    first = culprit(incident.failures)
    task = tasks[first.task]
    return task.state in ALIVE and task.attempt > (first.generation, first.attempt)


def _was_requested(incident: _Incident, tasks: dict[str, ObservedTask]) -> bool:
    """Decide whether a peer was stopped on request before: its end takes the others down as any death does."""
    first = culprit(incident.failures)
    ends = (task.status.exit for task in tasks.values() if task.status and task.attempt[0] == first.generation)
    asked = (end.at for end in ends if end and end.requested)
    return not first.primary and any(first.at - TOGETHER <= at <= first.at + CLOCK_DOUBT for at in asked)


def _described(incident: _Incident, tasks: dict[str, ObservedTask]) -> Diagnosis:
    """Return the crash; a worker that left well is its cause where the others failed for want of it."""
    crash, first = _describe(incident), culprit(incident.failures)
    left = left_early(list(tasks.values()))
    if left is None or first.primary or not first.followed or left.attempt[0] != first.generation:
        return crash
    failures = sorted(incident.failures, key=lambda failure: failure.at)
    sentence = f"{how_it_left(left)}; {listing([f'{failure.task} {failure.how}' for failure in failures])} for that"
    followers = ", ".join(failure.task for failure in failures)
    evidence = {**crash.evidence, "code": 0, "signal": None, "followers": followers, "reason": OUT_OF_STEP}
    return replace(crash, subject=left.name, sentence=sentence, evidence=evidence)


def _describe(incident: _Incident) -> Diagnosis:
    first = culprit(incident.failures)
    named = first.clue.culprit if first.followed and first.clue else None
    elsewhere = named if named not in {failure.task for failure in incident.failures} else None
    followers = [failure for failure in incident.failures if elsewhere or failure is not first]
    followers.sort(key=lambda failure: failure.at)
    how = (
        f"{elsewhere} has died, how it does not say" if elsewhere else f"{first.task} {first.how} at {clock(first.at)}"
    )
    sentence = f"{how}{'' if elsewhere else _why(first)}"
    alike = [failure for failure in followers if _is_alike(first, failure)]
    rest = [failure for failure in followers if failure not in alike]
    for others, why in ((alike, "for the same reason"), (rest, _peers_gone(rest))):
        if others:
            sentence += f"; {_followed(first, others)}, {why}"
    return Diagnosis(
        kind="crash",
        subject=elsewhere or first.task,
        begin=first.at,
        end=None,
        severity="critical",
        sentence=sentence,
        evidence={
            "code": None if elsewhere else first.code,
            "signal": None if first.signal is None else signal_name(first.signal),
            "followers": ", ".join(failure.task for failure in followers) or None,
            "reason": first.clue.kind if first.clue else None,
            "line": first.clue.line if first.clue else None,
            "log": "\n".join(first.log) or None,
        },
    )


def _why(first: Failure) -> str:
    """Return the line of its log that explains the failure, as the next part of the sentence."""
    clue = first.clue
    if clue is None:
        return ""
    if clue.kind == "explained":
        return f": {clue.line.removeprefix(EXPLAINED)}"
    line = clue.line if len(clue.line) <= _IN_SENTENCE else f"{clue.line[:_IN_SENTENCE]}..."
    return f": {line}" if clue.kind == "exception" else f", {clue.words}: {line}"


def _is_alike(first: Failure, other: Failure) -> bool:
    """Decide whether a task failed by itself as the first one did: all run the same script."""
    if first.clue is None or other.clue is None or first.clue.kind != other.clue.kind:
        return False
    same = first.clue == other.clue and first.clue.kind in ("explained", "exception")
    # Each of them names its own shapes.
    return same or first.clue.kind == OUT_OF_STEP


def _peers_gone(followers: list[Failure]) -> str:
    return f"because {'its peer was' if len(followers) == 1 else 'their peer was'} gone"


def _followed(first: Failure, followers: list[Failure]) -> str:
    later = max(0.0, followers[-1].at - first.at)
    when = f"{duration(later)} later" if later >= 0.05 else "at once"
    victims = listing([f"{failure.task} {failure.how}" for failure in followers])
    return f"{victims}, {when}"
