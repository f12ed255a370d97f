"""Hosts without an answer: a host may be cut off from all others or from one, or only this console is cut off.

Agents greet their neighbours every two seconds. Their answers are compared with the console's own connections.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from tfscale.console.analysis.detector import ClusterView, Detector
from tfscale.console.analysis.network.outages import Outages
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.observed.seats import SeatWatch
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.neighbours import host_speakers, neighbours
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import UNHEARD, Counters, Neighbour
from tfscale.core.text import clock, listing

_AFTER = 3.0
"""Seconds after the newest frame of a lost agent from which on a neighbour's answer counts as later. Both times are
of one clock. Frames older than 2 s belong to a task that is not `up`, and a frame may come a second late from a busy
host."""

HEARD, GONE, NEVER_HEARD, LEFT = "heard", "gone", "never heard", "left"
"""Evidence (`agent`), in this order: other agents hear the agent; none does; the console never has; it was asked to
leave."""

_COMING_BACK = 15.0
"""Seconds from the first to the last agent that hears a host again: TCP and gRPC try again after pauses. With less
one outage would end in several events, with more its end is told later."""


class SilenceWatch(Detector):
    """Watch of who hears whom."""

    def __init__(self, spec: ClusterSpec, seats: SeatWatch) -> None:
        self._seats = seats
        speakers = host_speakers(spec)
        self._speaker = {str(task): str(speakers[address.host]) for task, address in spec.agents.items()}
        """Task whose agent answers for the host of each task."""
        self._greeters: dict[str, list[str]] = defaultdict(list)
        """Tasks whose agents greet that of a speaker."""
        for task in spec.tasks:
            for greeted in neighbours(spec, task):
                self._greeters[str(greeted)].append(str(task))
        self._newest: dict[str, tuple[float, bool, Counters]] = {}
        """Of each task: time of its newest frame, whether it misses a neighbour, counters."""
        self._lost: dict[str, dict[str, float]] = {}
        """Tasks that the console does not reach: time of each greeter's newest frame when that began."""
        self._silent: dict[str, float] = {}
        """Hosts that answer nobody, by the task that speaks for them, and since when."""
        self._returned: dict[str, tuple[float, float]] = {}
        """Hosts that did so until a moment ago: (since when, when the console reached it again)."""
        self.outages = Outages()

    def observe(self, task: str, frame: Frame) -> None:
        """Keep the newest facts of a task's agent."""
        self._newest[task] = (frame.at, frame.misses_neighbour, frame.counters)

    def diagnose(self, view: ClusterView) -> list[Diagnosis]:
        """Return the hosts that are cut off from the others or from the console."""
        tasks, now = view.by_name, view.now
        lost = [task for task in tasks.values() if _is_missed_by_the_console(task)]
        self._lost = {task.name: self._lost.get(task.name, {}) for task in lost}
        found = [finding for task in lost if (finding := self._about_lost(task, tasks)) is not None]
        self._note_returns({self._speaker[each.subject]: each.begin for each in found if each.kind == "cut_off"}, now)
        found += self._about_reached(self._deaf_pairs(tasks))
        self.outages.note_cut_off([each for each in found if each.kind == "cut_off"], now, self._seats.has_moved)
        self.outages.note_stopped(tasks.values(), now)
        return found

    def explain(self, view: ClusterView) -> list[Diagnosis]:
        """Return all findings, with all crashes of one outage as one crash."""
        crashes = [each for each in view.found if each.kind == "crash"]
        return [*(each for each in view.found if each.kind != "crash"), *self.outages.explain(crashes)]

    def _note_returns(self, silent: Mapping[str, float], now: float) -> None:
        back = {name: (since, now) for name, since in self._silent.items() if name not in self._lost}
        kept = {name: times for name, times in self._returned.items() if now - times[1] < _COMING_BACK}
        self._silent, self._returned = dict(silent), kept | back

    def _about_lost(self, task: ObservedTask, tasks: Mapping[str, ObservedTask]) -> Diagnosis | None:
        """Return the other agents' answers about a task that the console does not reach; None while unknown."""
        speaker, known = self._speaker[task.name], self._lost[task.name]
        heard = {
            name: (self._newest[name][0], answer)
            for name in self._greeters[speaker]
            if name in self._newest and tasks[name].up and (answer := self._heard(name).get(speaker)) is not None
        }
        begin = task.since or 0.0
        for name, (at, _) in heard.items():
            known.setdefault(name, at)
        if hearing := [name for name, (at, answer) in heard.items() if _is_since(answer.heard, known[name], at)]:
            hears = "hears" if len(hearing) == 1 else "hear"
            return _unreachable(task, begin, f"{listing(hearing)} {hears} it: it lives", HEARD)
        silent = [answer.reached for at, answer in heard.values() if answer.reached and is_missed(answer, at)]
        is_silent = bool(silent) and len(silent) == len(heard)
        if task.has_left and not is_silent:
            return _left(task.name, begin)
        if reaching := [name for name, (at, answer) in heard.items() if _is_since(answer.reached, known[name], at)]:
            if task.at is None:
                return _never_heard(task.name, begin, reaching)
            return _unreachable(task, begin, f"its host answers {listing(reaching)}, its agent does not", GONE)
        return _silent(task.name, max(silent), list(heard)) if is_silent else None

    def _deaf_pairs(self, tasks: Mapping[str, ObservedTask]) -> dict[frozenset[str], float]:
        """Return the pairs of hosts that the console reaches but that do not hear each other, with the begins."""
        since: dict[frozenset[str], float] = {}
        for name, (at, misses, _) in self._newest.items():
            for answer in self._heard(name).values() if misses and tasks[name].up else ():
                if is_missed(answer, at) and self._is_reached(answer, tasks):
                    pair = frozenset((self._speaker[name], answer.task))
                    since[pair] = max(answer.reached or 0.0, since.get(pair, 0.0))
        return since

    def _is_reached(self, answer: Neighbour, tasks: Mapping[str, ObservedTask]) -> bool:
        """Decide whether the console reaches the host that did not answer, and no other host that has its task now."""
        has_moved = self._seats.has_moved(answer.task, answer.reached or 0.0)
        return answer.task in tasks and tasks[answer.task].up and not has_moved

    def _about_reached(self, since: Mapping[frozenset[str], float]) -> list[Diagnosis]:
        """Return findings for the hosts that come back, the hosts that hear nobody, and the remaining pairs."""
        coming = {name for name in self._returned if any(name in pair for pair in since)}
        found = [_coming_back(name, self._returned[name][0]) for name in sorted(coming)]
        since = {pair: at for pair, at in since.items() if not pair & coming}
        alone = {name for name in {each for pair in since for each in pair} if self._hears_nobody(name, since)}
        found += [_cut_off(name, max(at for pair, at in since.items() if name in pair)) for name in sorted(alone)]
        pairs = [(sorted(pair), at) for pair, at in since.items() if not pair & alone]
        return [*found, *(_apart(first, second, at) for (first, second), at in sorted(pairs))]

    def _hears_nobody(self, name: str, since: Mapping[frozenset[str], float]) -> bool:
        """Decide whether no host, of at least two that greet this host or are greeted by it, hears it."""
        near = {self._speaker[greeter] for greeter in self._greeters[name]}
        return len(near) > 1 and all(frozenset((name, other)) in since for other in near)

    def _heard(self, name: str) -> Mapping[str, Neighbour]:
        host = self._newest[name][2].host
        return {answer.task: answer for answer in host.neighbours} if host else {}


def _is_missed_by_the_console(task: ObservedTask) -> bool:
    """Decide whether the console lost an agent, or never had it; an agent may leave after its task has ended well."""
    return task.since is not None and not task.up and not task.ended_well


def is_missed(answer: Neighbour, at: float) -> bool:
    """Decide whether a host that answered before is silent in a frame of this time."""
    return answer.reached is not None and at - answer.reached > UNHEARD


def _is_since(answered: float | None, lost: float, at: float) -> bool:
    """Decide whether an answer is later than the frame at the loss (`lost`), and newer than in that frame."""
    return answered is not None and answered > lost + _AFTER and at - answered <= UNHEARD


def _unreachable(task: ObservedTask, begin: float, why: str, agent: str) -> Diagnosis:
    since = clock(begin) if task.at is not None else f"it began to watch ({clock(begin)})"
    sentence = f"the console cannot reach {task.name}'s agent since {since}; {why}"
    return Diagnosis("unreachable", task.name, begin, None, "warning", sentence, evidence={"agent": agent})


def _left(task: str, at: float) -> Diagnosis:
    sentence = f"{task}'s agent left at {clock(at)} as it was asked to, and the task went on"
    return Diagnosis("unreachable", task, at, None, "warning", sentence, evidence={"agent": LEFT})


def _never_heard(task: str, begin: float, by: Sequence[str]) -> Diagnosis:
    sentence = (
        f"{task}'s agent has not answered since the console began to watch ({clock(begin)}), though its host answers "
        f"{listing(by)}: nobody has started it there, or it has ended"
    )
    return Diagnosis("unreachable", task, begin, None, "warning", sentence, evidence={"agent": NEVER_HEARD})


def _silent(task: str, since: float, by: Sequence[str]) -> Diagnosis:
    sentence = (
        f"{task}'s host does not answer to anyone: it is cut off or down since {clock(since)}; "
        f"neither the console nor {listing(by)} hears it"
    )
    return Diagnosis("cut_off", task, since, None, "critical", sentence, evidence={"unheard_by": tuple(by)})


def _coming_back(task: str, since: float) -> Diagnosis:
    sentence = f"{task}'s host was cut off since {clock(since)}, and is coming back: not all others hear it yet"
    return Diagnosis("cut_off", task, since, None, "critical", sentence, evidence={})


def _cut_off(task: str, since: float) -> Diagnosis:
    sentence = f"{task}'s host and the others do not hear each other since {clock(since)}: only the console reaches it"
    return Diagnosis("cut_off", task, since, None, "critical", sentence, evidence={})


def _apart(first: str, second: str, since: float) -> Diagnosis:
    sentence = (
        f"the hosts of {first} and {second} do not hear each other since {clock(since)}: the network between them is "
        "cut, though the console reaches both"
    )
    return Diagnosis("cut_off", first, since, None, "critical", sentence, evidence={"from": second})
