"""Hosts that nobody hears: who is cut off, from whom, and who only seems to be, to a console that is cut off itself.

Agents greet their neighbours each second. What they hear is compared with what the console hears.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from tfscale.core.analysis.network.outages import Outages
from tfscale.core.analysis.tasks.observed_task import ObservedTask
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.neighbours import host_speakers, neighbours
from tfscale.core.records import UNHEARD, Counters, Diagnosis, Frame, Neighbour
from tfscale.core.text import clock, listing


class SilenceWatch:
    """Watch of who hears whom."""

    def __init__(self, spec: ClusterSpec) -> None:
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
        """Tasks that the console does not reach: what each greeter had heard last when that began."""
        self.outages = Outages()

    def fold(self, task: str, frame: Frame) -> None:
        """Take in a frame of a task's agent."""
        self._newest[task] = (frame.at, frame.misses_neighbour, frame.counters)

    def diagnose(self, tasks: Mapping[str, ObservedTask], now: float) -> list[Diagnosis]:
        """Return who is cut off from the others or from the console."""
        lost = [task for task in tasks.values() if task.since is not None and not task.up]
        self._lost = {task.name: self._lost.get(task.name, {}) for task in lost}
        found = [told for task in lost if (told := self._about_lost(task, tasks)) is not None]
        missing = [name for name, (_, misses, _) in self._newest.items() if misses and tasks[name].up]
        found += self._about_reached(missing, tasks)
        self.outages.note([each for each in found if each.kind == "cut_off"], now)
        return found

    def _about_lost(self, task: ObservedTask, tasks: Mapping[str, ObservedTask]) -> Diagnosis | None:
        """Say what others hear of a task that the console does not reach; None while that is not known."""
        speaker, known = self._speaker[task.name], self._lost[task.name]
        heard = {
            name: (self._newest[name][0], told)
            for name in self._greeters[speaker]
            if name in self._newest and tasks[name].up and (told := self._heard(name).get(speaker)) is not None
        }
        begin = task.since or 0.0
        if refusing := [name for name, (_, told) in heard.items() if told.refused]:
            return _unreachable(task.name, begin, f"its host answers {listing(refusing)} that no agent is there")
        # What a greeter heard later than it had when the console lost the task was said after that.
        for name, (_, told) in heard.items():
            known.setdefault(name, told.heard or 0.0)
        if hearing := [name for name, (_, told) in heard.items() if told.heard and told.heard > known[name]]:
            hears = "hears" if len(hearing) == 1 else "hear"
            return _unreachable(task.name, begin, f"{listing(hearing)} {hears} its host: it lives")
        silent = [told.heard for at, told in heard.values() if told.heard and at - told.heard > UNHEARD]
        return _silent(task.name, max(silent), list(heard)) if silent and len(silent) == len(heard) else None

    def _about_reached(self, missing: Iterable[str], tasks: Mapping[str, ObservedTask]) -> list[Diagnosis]:
        """Name the hosts, or pairs of them, that the console reaches and that do not hear each other."""
        since: dict[frozenset[str], float] = {}
        for name in missing:
            at = self._newest[name][0]
            for told in self._heard(name).values():
                if is_missed(told, at) and told.task in tasks and tasks[told.task].up and told.heard:
                    pair = frozenset((self._speaker[name], told.task))
                    since[pair] = max(told.heard, since.get(pair, 0.0))
        alone = [name for name in {each for pair in since for each in pair} if self._hears_nobody(name, since)]
        cut = [_cut_off(name, max(at for pair, at in since.items() if name in pair)) for name in sorted(alone)]
        pairs = [(sorted(pair), at) for pair, at in since.items() if not pair & set(alone)]
        return [*cut, *(_apart(first, second, at) for (first, second), at in sorted(pairs))]

    def _hears_nobody(self, name: str, since: Mapping[frozenset[str], float]) -> bool:
        """Decide whether none of at least two hosts that greet a host, or are greeted by it, hears it."""
        near = {self._speaker[greeter] for greeter in self._greeters[name]}
        return len(near) > 1 and all(frozenset((name, other)) in since for other in near)

    def _heard(self, name: str) -> Mapping[str, Neighbour]:
        host = self._newest[name][2].host
        return {told.task: told for told in host.neighbours} if host else {}


def is_missed(told: Neighbour, at: float) -> bool:
    """Decide whether a neighbour that was heard before is not any more, in a frame of this time."""
    return told.heard is not None and not told.refused and at - told.heard > UNHEARD


def _unreachable(task: str, begin: float, why: str) -> Diagnosis:
    sentence = f"the console cannot reach {task}'s agent since {clock(begin)}; {why}"
    return Diagnosis("unreachable", task, begin, None, "warning", sentence, {})


def _silent(task: str, since: float, by: Sequence[str]) -> Diagnosis:
    sentence = (
        f"{task}'s host does not answer to anyone since {clock(since)}: neither the console nor {listing(by)} hears it"
    )
    return Diagnosis("cut_off", task, since, None, "critical", sentence, {"unheard_by": ", ".join(by)})


def _cut_off(task: str, since: float) -> Diagnosis:
    sentence = f"{task}'s host and the others do not hear each other since {clock(since)}: only the console reaches it"
    return Diagnosis("cut_off", task, since, None, "critical", sentence, {"unheard_by": "all"})


def _apart(first: str, second: str, since: float) -> Diagnosis:
    sentence = (
        f"the hosts of {first} and {second} do not hear each other since {clock(since)}: the network between them is "
        "cut, though the console reaches both"
    )
    return Diagnosis("cut_off", first, since, None, "critical", sentence, {"unheard_by": second})
