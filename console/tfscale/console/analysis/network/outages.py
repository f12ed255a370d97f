"""Outages of the network, times in which a process was stopped, and the crashes that followed from them.

TensorFlow's tasks end some seconds after they lose a peer, each with an error that another task has died, although no
task has died.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.cluster.task import subject_order
from tfscale.core.failure.failure_kinds import OF_NETWORK, PEER
from tfscale.core.failure.task_failure import CLOCK_DOUBT
from tfscale.core.records.diagnosis import Diagnosis, Evidence
from tfscale.core.text import clock, listing

NETWORK = "network"
"""Reason of a crash (`evidence.reason`) that followed from an outage."""
STOPPED = "stopped"
"""Reason of a crash that follows from a peer's stopped process."""
GIVEN_UP = 5.0
"""Shortest stop of a process, in seconds, that ends other tasks: TensorFlow gave a stopped peer up after 7 to 12 s,
so a shorter stop has another consequence, and with a longer limit real ones would be missed."""
AFTER = 60.0
"""Seconds after an outage in which tasks may still end of it: TensorFlow notices at its next message, which a long
step delays. With less such ends have no reason, with more an unrelated crash gets this reason."""
_KEPT = 10
"""Newest outages that are remembered: a crash follows from one of the last `AFTER` seconds."""
_OF_NETWORK = re.compile(r"unavailable|deadline|connection|timed out|socket", re.IGNORECASE)


@dataclass(slots=True)
class Outage:
    """Time in which a host was cut off; `end` is None while it lasts."""

    task: str
    begin: float
    end: float | None = None
    other: str = ""
    """Task of the single unreachable host; empty where all hosts were unreachable."""
    how: str = ""
    """Manner in which a process was stopped, as in `stopped by a signal`; empty for an outage of the network."""
    has_moved: bool = False
    """True where it ended only because the task was placed on another host: nobody knows of the first."""

    @property
    def reason(self) -> str:
        return STOPPED if self.how else NETWORK

    @property
    def clause(self) -> str:
        """Clause about the outage."""
        since = f"since {clock(self.begin)}"
        when = since if self.end is None else f"from {clock(self.begin)} to {clock(self.end)}"
        if self.how:
            return f"{self.task} {'has been' if self.end is None else 'was'} {self.how} {when}"
        if self.has_moved and self.end is not None:
            moved = f"{self.task} was placed on another at {clock(self.end)}"
            return f"{self.task}'s host was not heard any more from {clock(self.begin)} on, and {moved}"
        network = f"the network between {self.task} and {self.other}" if self.other else f"{self.task}'s network"
        return f"{network} {'is' if self.end is None else 'was'} gone {when}"

    def explains(self, at: float) -> bool:
        """Decide whether the outage may have ended a task at this time."""
        if self.how and min(at, self.end or at) - self.begin < GIVEN_UP - CLOCK_DOUBT:
            return False
        return self.begin - CLOCK_DOUBT <= at and (self.end is None or at <= self.end + AFTER)


@dataclass(slots=True)
class Outages:
    """The newest outages."""

    _known: list[Outage] = field(default_factory=list)

    def note_cut_off(self, cut: Iterable[Diagnosis], now: float, has_moved: Callable[[str, float], bool]) -> None:
        """Take in who is cut off now. `has_moved` decides whether a task was placed on another host since a time."""
        found = [Outage(each.subject, each.begin, other=str(each.evidence.get("from") or "")) for each in cut]
        for outage in self._note(NETWORK, list(map(self._whole, found)), now):
            outage.has_moved = has_moved(outage.task, outage.begin)

    def _whole(self, outage: Outage) -> Outage:
        """Return the outage of one host from its pairs; this pair is the last whose hosts hear each other again."""
        whole = (
            known
            for known in self._known
            if not (known.how or known.other) and known.task in (outage.task, outage.other)
        )
        near = (known for known in whole if abs(known.begin - outage.begin) <= CLOCK_DOUBT)
        return next((replace(known, end=None) for known in near), outage) if outage.other else outage

    def note_stopped(self, tasks: Iterable[ObservedTask], now: float) -> None:
        """Take in the tasks whose processes are stopped now. A task without frames keeps its last state."""
        known = {task.name: task for task in tasks if task.up}
        lasting = {outage.task for outage in self._known if outage.end is None and outage.how}
        running = {name: task for name, task in known.items() if task.running}
        stopped = [Outage(name, now, how=how) for name, task in running.items() if (how := how_stopped(task))]
        unheard = [Outage(name, now, how="stopped") for name in lasting - known.keys()]
        self._note(STOPPED, [*stopped, *unheard], now)

    def _note(self, reason: str, found: Sequence[Outage], now: float) -> list[Outage]:
        """Take in the outages that last now; return those that have just ended."""
        new = {outage.task: outage for outage in found}
        lasting = {outage.task: outage for outage in self._known if outage.end is None and outage.reason == reason}
        over = [outage for task, outage in lasting.items() if task not in new]
        for outage in over:
            outage.end = now
        self._known += [outage for task, outage in new.items() if task not in lasting]
        self._known = self._known[-_KEPT:]
        return over

    def explain(self, crashes: Sequence[Diagnosis]) -> list[Diagnosis]:
        """Return the crashes; all crashes of one outage become one crash, which names the outage."""
        explained: list[Diagnosis] = []
        followed: dict[int, list[Diagnosis]] = {}
        for crash in crashes:
            number = self._outage_of(crash)
            if number is None:
                explained.append(crash)
            else:
                followed.setdefault(number, []).append(crash)
        return explained + [_describe(self._with_others(number), all_of_it) for number, all_of_it in followed.items()]

    def _with_others(self, number: int) -> Sequence[Outage]:
        """Return an outage; one of a stopped process with all that were stopped with it in the same way, by task."""
        one = self._known[number]
        beside = [each for each in self._known if each.how == one.how and _overlap(each, one)] if one.how else [one]
        return sorted(beside, key=lambda each: subject_order(each.task))

    def _outage_of(self, crash: Diagnosis) -> int | None:
        if not _is_of_network(crash):
            return None
        numbers = range(len(self._known))
        return next((number for number in reversed(numbers) if self._known[number].explains(crash.begin)), None)


def _overlap(one: Outage, other: Outage) -> bool:
    return one is other or (
        (other.end is None or one.begin <= other.end) and (one.end is None or other.begin <= one.end)
    )


def _clause_of(outages: Sequence[Outage]) -> str:
    """Return the clause about an outage, or about processes that were stopped at the same time."""
    if len(outages) == 1:
        return outages[0].clause
    names, begin = listing([each.task for each in outages]), clock(min(each.begin for each in outages))
    ends = [each.end for each in outages if each.end is not None]
    if len(ends) < len(outages):
        return f"{names} have been {outages[0].how} since {begin}"
    return f"{names} were {outages[0].how} from {begin} to {clock(max(ends))}"


def _describe(outages: Sequence[Outage], crashes: Sequence[Diagnosis]) -> Diagnosis:
    outage = outages[0]
    first = min(crashes, key=lambda crash: crash.begin)
    ended = sorted({name for crash in crashes for name in _ended(crash)})
    evidence: Evidence = {
        **first.evidence,
        "followers": tuple(ended),
        "reason": outage.reason,
        "outage_begin": outage.begin,
        "outage_end": outage.end,
    }
    return replace(
        first,
        subject=outage.task,
        sentence=f"{_clause_of(outages)}; {listing(ended)} ended of that",
        evidence=evidence,
    )


def how_stopped(task: ObservedTask) -> str:
    """Return the manner in which a task's process is stopped now; empty where it is not stopped."""
    if task.stopped:
        return "stopped by a signal"
    usage = task.held.host.task if task.held and task.held.host else None
    if usage is not None and usage.traced:
        return "stopped by a debugger"
    return "frozen with its container" if usage is not None and usage.frozen else ""


def _ended(crash: Diagnosis) -> list[str]:
    """Return the tasks that ended; a task that its peers only took for dead has left no exit."""
    has_exit = crash.evidence.get("code") is not None or crash.evidence.get("signal") is not None
    followers = crash.evidence.get("followers")
    return [*([crash.subject] if has_exit else []), *(followers if isinstance(followers, tuple) else ())]


def _is_of_network(crash: Diagnosis) -> bool:
    """Decide whether the log of the first task to end blames another task or a connection."""
    reason, line = crash.evidence.get("reason"), crash.evidence.get("line")
    return reason in (PEER, *OF_NETWORK) or (
        reason == "exception" and isinstance(line, str) and bool(_OF_NETWORK.search(line))
    )
