"""Who died first, and what followed.

In synchronous training one death takes everybody down: peers exit 1 within about 2 s ("Collective ops is aborted").
The first failure is the culprit; the others are told as its consequences.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field

from tfscale.core.analysis.tasks.observed_task import ALIVE, TaskView
from tfscale.core.analysis.words import clock, duration, listing, signal_name
from tfscale.core.log_clues import PEER, Clue, clue
from tfscale.core.records import Diagnosis, TaskState, TaskStatus

TOGETHER = 15.0
"""Seconds within which failures of one generation are one incident."""
SETTLE = 3.0
"""Seconds to wait for the other agents' reports before somebody is named."""
CLOCK_DOUBT = 2.0
"""Seconds by which the clocks of hosts, and TensorFlow's own reaction, may turn the order of two exits around."""

_IN_SENTENCE = 160
"""Characters of a log's line."""

_PRIMARY = {signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE}


@dataclass(frozen=True, slots=True)
class Failure:
    """One task's process ended, not well and not on request."""

    task: str
    generation: int
    attempt: int
    at: float
    code: int | None
    signal: int | None
    lost: bool = False
    log: tuple[str, ...] = ()
    clue: Clue | None = None
    """The line that matters in the end of its log."""

    @property
    def primary(self) -> bool:
        """Whether it is a death that peers do not die of by themselves (TensorFlow's aborts are exit 1 or SIGABRT)."""
        return self.signal in _PRIMARY or (self.clue is not None and self.clue.kind not in (PEER, "exception"))

    @property
    def followed(self) -> bool:
        """Whether its own log says that it ended because another task had died."""
        return self.clue is not None and self.clue.kind == PEER and self.signal not in _PRIMARY

    @property
    def how(self) -> str:
        if self.signal is not None:
            return f"was killed by {signal_name(self.signal)}"
        if self.code is not None:
            return f"exited {self.code}"
        return "was lost with its shim" if self.lost else "ended, nobody knows how"


def failure_of(task: str, status: TaskStatus, at: float) -> Failure | None:
    """The failure that a status tells of, None for all that is well or was asked for."""
    ended = status.exit
    if status.state is TaskState.LOST:
        return Failure(task, status.generation, status.attempt, ended.at if ended else at, None, None, lost=True)
    if status.state is not TaskState.EXITED or ended is None or ended.well:
        return None
    return Failure(
        task, status.generation, status.attempt, ended.at, ended.code, ended.signal, log=ended.log, clue=clue(ended.log)
    )


def culprit(failures: list[Failure]) -> Failure:
    """The first failure of those that do not say themselves that they only followed; among those too close to tell, one
    that peers do not die of by themselves."""
    failures = [failure for failure in failures if not failure.followed] or failures
    first = min(failures, key=lambda failure: failure.at)
    close = [failure for failure in failures if failure.primary and failure.at <= first.at + CLOCK_DOUBT]
    return first if first.primary or not close else min(close, key=lambda failure: failure.at)


@dataclass(slots=True)
class _Incident:
    failures: list[Failure]
    noticed: float
    told: bool = False

    def takes(self, failure: Failure) -> bool:
        anchor = self.failures[0]
        return failure.generation == anchor.generation and abs(failure.at - anchor.at) <= TOGETHER


@dataclass(slots=True)
class CrashWatch:
    """Collects failures into incidents. An incident ends when its culprit runs again."""

    _incidents: list[_Incident] = field(default_factory=list)
    _seen: dict[str, tuple[int, int]] = field(default_factory=dict)

    def diagnose(self, tasks: dict[str, TaskView], now: float) -> list[Diagnosis]:
        """One open `crash` an incident, with the culprit as its subject."""
        for view in tasks.values():
            self._note(view, now)
        self._incidents = [each for each in self._incidents if not (each.told and _mended(each, tasks))]
        settled = [each for each in self._incidents if now - each.noticed >= SETTLE]
        for incident in settled:
            incident.told = True
        return [_describe(each) for each in settled if not _asked_for(each, tasks)]

    def _note(self, view: TaskView, now: float) -> None:
        if view.status is None or view.at is None or self._seen.get(view.name) == view.attempt:
            return
        failure = failure_of(view.name, view.status, view.at)
        if failure is None:
            return
        self._seen[view.name] = view.attempt
        incident = next((each for each in self._incidents if each.takes(failure)), None)
        if incident:
            incident.failures.append(failure)
        else:
            self._incidents.append(_Incident([failure], noticed=now))


def _mended(incident: _Incident, tasks: dict[str, TaskView]) -> bool:
    first = culprit(incident.failures)
    view = tasks[first.task]
    return view.state in ALIVE and view.attempt > (first.generation, first.attempt)


def _asked_for(incident: _Incident, tasks: dict[str, TaskView]) -> bool:
    """Whether a peer had been stopped on request: its going takes the others down as any other death would."""
    first = culprit(incident.failures)
    ends = (view.status.exit for view in tasks.values() if view.status and view.attempt[0] == first.generation)
    asked = (end.at for end in ends if end and end.requested)
    return not first.primary and any(first.at - TOGETHER <= at <= first.at + CLOCK_DOUBT for at in asked)


def _describe(incident: _Incident) -> Diagnosis:
    first = culprit(incident.failures)
    named = first.clue.culprit if first.followed and first.clue else None
    elsewhere = named if named not in {each.task for each in incident.failures} else None
    followers = sorted((each for each in incident.failures if elsewhere or each is not first), key=lambda each: each.at)
    how = (
        f"{elsewhere} has died, how it does not say" if elsewhere else f"{first.task} {first.how} at {clock(first.at)}"
    )
    sentence = f"{how}{'' if elsewhere else _why(first)}"
    if followers:
        sentence += f"; {_followed(first, followers)}"
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
            "followers": ", ".join(each.task for each in followers) or None,
            "reason": first.clue.kind if first.clue else None,
            "line": first.clue.line if first.clue else None,
            "log": "\n".join(first.log) or None,
        },
    )


def _why(first: Failure) -> str:
    """The line of its log that matters."""
    found = first.clue
    if found is None:
        return ""
    line = found.line if len(found.line) <= _IN_SENTENCE else f"{found.line[:_IN_SENTENCE]}..."
    return f": {line}" if found.kind == "exception" else f", {found.words}: {line}"


def _followed(first: Failure, followers: list[Failure]) -> str:
    later = max(0.0, followers[-1].at - first.at)
    when = f"{duration(later)} later" if later >= 0.05 else "at once"
    who = listing([f"{each.task} {each.how}" for each in followers])
    return f"{who}, {when}, because {'its peer was' if len(followers) == 1 else 'their peer was'} gone"
