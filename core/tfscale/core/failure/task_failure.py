"""Failures of tasks. The first of several is the one that the console names, and by which agents decide a restart.

Standard library alone, because agents import this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfscale.core.failure.clues import Clue, find_clue
from tfscale.core.failure.failure_kinds import EXCEPTION, LAST_WORDS, OF_NETWORK, PEER
from tfscale.core.failure.task_signals import TaskSignal
from tfscale.core.records.task_status import Exit, TaskState, TaskStatus
from tfscale.core.text import exit_phrase

SETTLE = 3.0
"""Seconds to wait for the other agents' reports before a culprit is named: three reports. With less a late report would
leave the wrong culprit, with more every crash is told later."""
CLOCK_DOUBT = 2.0
"""Seconds by which different clocks, and TensorFlow's own reaction, can reverse the order of two exits."""
PRIMARY = frozenset({TaskSignal.SIGKILL, TaskSignal.SIGSEGV, TaskSignal.SIGBUS, TaskSignal.SIGILL, TaskSignal.SIGFPE})
"""Signals by which no task dies because of another's death."""
_BY_A_PEER = frozenset({TaskSignal.SIGABRT, TaskSignal.SIGPIPE})
"""Signals that a peer's death may send: TensorFlow aborts, and who writes to a closed connection is ended."""
_AFTER_A_PEER = frozenset({PEER, EXCEPTION, LAST_WORDS, *OF_NETWORK})
"""Kinds of clues that a task may leave because a peer's death ended it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """End of one task's process, neither well nor on request; or a start of which nothing was heard."""

    task: str
    generation: int
    attempt: int
    at: float
    code: int | None
    signal: int | None
    lost: bool = False
    unstarted: bool = False
    """True where the command to this generation has not started the task, or nothing is heard of its host."""
    log: tuple[str, ...] = ()
    clue: Clue | None = None
    """Line at the end of the task's log that explains the failure; None without such a line."""
    named: str | None = None
    """Task that the clue names as gone; None if the clue names none."""

    @property
    def primary(self) -> bool:
        """True for a death that no peer's death causes (TensorFlow aborts the peers with exit 1 or SIGABRT)."""
        return self.signal in PRIMARY or (self.clue is not None and self.clue.kind not in _AFTER_A_PEER)

    @property
    def followed(self) -> bool:
        """True if the task ended because another task had died, by its own log."""
        return self.clue is not None and self.clue.kind == PEER and self.signal not in PRIMARY

    @property
    def is_from_outside(self) -> bool:
        """True for a death by a signal that a peer's death does not send: somebody sent it, or the task's own fault."""
        return self.signal is not None and self.signal not in _BY_A_PEER

    @property
    def is_consequence(self) -> bool:
        """True for an end of which its own log shows that a peer's death caused it."""
        return self.clue is not None and not (self.is_from_outside or self.clue.is_own or self.clue.kind == LAST_WORDS)

    def has_lost_a_peer(self, earliest: float) -> bool:
        """Decide whether the task ended because another task had, by its own log; also if it was killed long after."""
        is_late = self.at > earliest + CLOCK_DOUBT
        return self.followed or (is_late and self.clue is not None and self.clue.kind == PEER)

    @property
    def how(self) -> str:
        if self.unstarted:
            return f"did not join generation {self.generation}"
        return "was lost with its shim" if self.lost else exit_phrase(Exit(self.code, self.signal, self.at))


def failure_of(task: str, status: TaskStatus, at: float) -> Failure | None:
    """Return the failure that a status reports, None for a task that runs, ended well or was stopped on request."""
    ended = status.exit
    if status.state is TaskState.LOST:
        return Failure(task, status.generation, status.attempt, ended.at if ended else at, None, None, lost=True)
    if status.state is not TaskState.EXITED or ended is None or ended.well:
        return None
    when, how = (status.generation, status.attempt, ended.at), (ended.code, ended.signal)
    return Failure(task, *when, *how, log=ended.log, clue=find_clue(ended.log, *how))


def culprit(failures: Sequence[Failure]) -> Failure:
    """Return the first failure, without those that by their own log follow another failure.

    Among failures too close in time to be ordered, a primary one goes first.
    """
    earliest = min(failure.at for failure in failures)
    failures = [failure for failure in failures if not failure.has_lost_a_peer(earliest)] or failures
    first = min(failures, key=lambda failure: failure.at)
    close = [failure for failure in failures if failure.primary and failure.at <= first.at + CLOCK_DOUBT]
    return first if first.primary or not close else min(close, key=lambda failure: failure.at)
