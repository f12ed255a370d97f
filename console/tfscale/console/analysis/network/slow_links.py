"""Slow and lossy links: from which task to which, by TCP's measurements on the sender's host.

In a ring every link carries the same bytes in a step, so that one slow link makes the all-reduce longer for all workers
alike: their own clocks cannot tell which link it is. TCP knows for how long bytes waited on each link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from statistics import median

from tfscale.console.analysis.detector import ClusterView, Detector
from tfscale.console.analysis.network.link_memory import LinkFigures, LinkMemory
from tfscale.console.analysis.stragglers.straggler_rule import severity_of
from tfscale.core.records.diagnosis import BEGAN, EARLIER, Diagnosis
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import Counters
from tfscale.core.text import bit_rate, data_size, duration, since_when, times

STEADY = 3
"""Judgements in a row, one a second, before a link is named, and before it counts as healthy again. A burst of
another program lasts for a second or two, and a name that comes and goes with bursts would be of no use."""
SLOWER_ON, SLOWER_OFF = 3.0, 2.0
"""Ratio of the others' speed to a link's from which on the link is slow, and below which the finding ends. Three
real workers on two busy cores had links of 1 to 4 Gbit/s, one of which, shaped to 60 Mbit/s, carried 57: a smaller
ratio would name links of such spread, a larger one would miss links that are slow in part."""
BUSY_ON, BUSY_OFF = 0.3, 0.2
"""Shares of the time in which a slow link has something to send, and by which it exceeds the others: a link that is
idle more than two thirds of the time holds nobody up, however slow it is."""
LOST_ON, LOST_OFF = 0.01, 0.005
"""Shares of the segments that are lost: senders that take loss for congestion crawl from 1 % on. With less, chance
losses would be named; with more, a crawling link would not."""
MOST_READ = 8
"""Busiest tasks whose links are read, and as many more for comparison: reading those of a thousand tasks each second
takes longer than the rest of the diagnosis."""
_LEAST_RATE = 10_000
"""Bytes a second below which a link carries requests, not data: heartbeats and small calls alone stay far below it."""
_LEAST_SHARE = 0.1
"""Part of the busiest link's rate below which a link's speed says nothing: TCP measures speed on what is sent, and a
few packets at a time never fill a link."""
_LONGER = 1.1
"""Factor of longer steps from which on a link is charged for them: the rate of a healthy link differs by some
percent from one minute to the next, and a lower factor would charge a link for that."""
_AT_ONCE = 2.0
"""Seconds after a task's first frame within which a link was there before: frames come once a second, and tasks open
their connections some seconds after their start."""
_GONE = 5.0
"""Seconds after which a link without new numbers is forgotten."""

_Key = tuple[str, str]
"""Sender and receiver."""


@dataclass(frozen=True, slots=True)
class _Compared:
    """A link that carries data, and the figures of the other links."""

    own: LinkFigures
    others: Sequence[LinkFigures]

    @property
    def others_speed(self) -> float:
        return median(other.speed for other in self.others)

    def is_slow(self, slower: float, busy: float) -> bool:
        beyond = busy + (median(other.work for other in self.others) if self.others else 0.0)
        return self.own.work >= min(beyond, 0.9) and self.others_speed >= slower * self.own.speed

    def is_lossy(self, lost: float) -> bool:
        return self.own.lost >= lost and self.own.lost >= 5 * median(other.lost for other in self.others)


class SlowLinks(Detector):
    """Watch of the links between hosts: it names those that are slow or lossy beside the others."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[float, float, Counters]] = {}
        """Of each task: time of its newest frame, share in which its busiest link was busy, counters."""
        self._first: dict[str, float] = {}
        """Time of the first frame of each task."""
        self._links: dict[_Key, LinkMemory] = {}
        self._findings: dict[_Key, Diagnosis] = {}
        """Newest diagnosis of each link that is named."""

    def observe(self, task: str, frame: Frame) -> None:
        """Keep the newest facts of a task's agent."""
        self._first.setdefault(task, frame.at)
        if frame.link_use is None:
            self._newest.pop(task, None)
        else:
            self._newest[task] = (frame.at, frame.link_use, frame.counters)

    def diagnose(self, _view: ClusterView) -> list[Diagnosis]:
        """Return one open `slow_link` for each task with a slow or lossy link to a peer."""
        fresh = self._read()
        figures = {key: link.figures() for key, link in self._links.items()}
        most = max((each.sent for each in figures.values()), default=0.0)
        least = max(_LEAST_RATE, _LEAST_SHARE * most)
        carrying = {key: each for key, each in figures.items() if each.is_answered and each.sent >= least}
        found: dict[str, Diagnosis] = {}
        for key, own in sorted(carrying.items(), key=lambda item: item[1].speed):
            link, others = self._links[key], [each for other, each in carrying.items() if other != key]
            if others and key[0] in fresh:
                _follow(link, _Compared(own, others))
            if others and link.is_named:
                found.setdefault(key[0], self._tell(key, link, _Compared(own, others)))
        self._findings = {
            key: finding for key, finding in self._findings.items() if key in self._links and self._links[key].is_named
        }
        return list(found.values())

    def _tell(self, key: _Key, link: LinkMemory, compared: _Compared) -> Diagnosis:
        """Return the present findings; the last ones until it is certain that the link is healthy again."""
        if link.in_a_row == 0 or key not in self._findings:
            self._findings[key] = _describe(key, link, compared, self._is_heard(key[1], link.at))
        return self._findings[key]

    def _is_heard(self, receiver: str, at: float) -> bool:
        """Decide whether a receiver's agent reports its own links, which may delay the answers."""
        names = receiver.split(" or ")
        return any(name in self._newest and self._newest[name][0] > at - _GONE for name in names)

    def _read(self) -> set[str]:
        """Take in the links of the busiest tasks and of some others, and return these tasks."""
        self._links = {key: link for key, link in self._links.items() if self._is_there(key, link)}
        names = list(self._newest)
        busiest = nlargest(MOST_READ, names, key=lambda name: self._newest[name][1])
        read_at = {sender: link.at for (sender, _), link in self._links.items()}
        fresh = set()
        for name in {*busiest, *names[:: -(-len(names) // MOST_READ) or 1]}:
            at, _, counters = self._newest[name]
            host = counters.host
            if host is not None and at > read_at.get(name, 0.0):
                fresh.add(name)
                for peer_link in host.links:
                    is_cut = at <= self._first[name] + _AT_ONCE
                    self._links.setdefault((name, peer_link.peer), LinkMemory(is_cut=is_cut)).add(at, peer_link)
        return fresh

    def _is_there(self, key: _Key, link: LinkMemory) -> bool:
        newest = self._newest.get(key[0])
        return newest is not None and newest[0] - link.at < _GONE


def _follow(link: LinkMemory, compared: _Compared) -> None:
    """Judge a link once more; several equal judgements in a row name it, or end its trouble."""
    slower, busy, lost = (SLOWER_OFF, BUSY_OFF, LOST_OFF) if link.is_named else (SLOWER_ON, BUSY_ON, LOST_ON)
    begins: dict[str, float] = {}
    if compared.is_slow(slower, busy):
        begins["slow"] = link.slow_since(compared.others_speed / 2)
    if compared.is_lossy(lost):
        begins["lossy"] = link.at
    is_ill = bool(begins)
    if is_ill:
        link.suspect(begins)
    elif not link.is_named:
        link.note_well()
    link.in_a_row = 0 if is_ill == link.is_named else link.in_a_row + 1
    if link.in_a_row >= STEADY:
        link.is_named, link.in_a_row = is_ill, 0


def _describe(key: _Key, link: LinkMemory, compared: _Compared, receiver_is_heard: bool) -> Diagnosis:
    own, (sender, receiver) = compared.own, key
    longer = link.usual_rate / own.sent if link.usual_rate else None
    round_trip = median(other.round_trip for other in compared.others)
    is_slow = link.manner == "slow"
    what = _slow(own, compared, round_trip) if is_slow else _lossy(own, compared)
    ends = f"from {sender} to {receiver}" if receiver_is_heard else f"between {sender} and {receiver}"
    costs = longer is not None and longer >= _LONGER
    effect = f": it makes the step {times(longer)} as long" if longer and costs else ""
    return Diagnosis(
        kind="slow_link",
        subject=sender,
        begin=link.since,
        end=None,
        severity=_severity(longer, own.work) if is_slow else "warning",
        sentence=f"the link {ends} {what}, {since_when(link.since, link.began_earlier)}{effect}",
        evidence={
            "receiver": receiver,
            "manner": link.manner,
            "speed": own.speed,
            "speed_of_others": compared.others_speed,
            "sent": own.sent,
            "busy": own.work,
            "unsent": float(own.unsent),
            "round_trip": own.round_trip,
            "round_trip_of_others": round_trip,
            "retransmitted": own.lost,
            "ratio": longer,
            "cost": 1 - 1 / longer if longer and costs else None,
            **({BEGAN: EARLIER} if link.began_earlier else {}),
        },
    )


def _slow(own: LinkFigures, compared: _Compared, round_trip: float) -> str:
    waits = f" with {data_size(own.unsent)} waiting to be sent" if own.unsent else ""
    loses = f", {own.lost:.1%} of it lost" if own.lost >= LOST_OFF else ""
    return (
        f"is slow: {bit_rate(8 * own.speed)}{waits}, round trip {duration(own.round_trip)}{loses} "
        f"(others {bit_rate(8 * compared.others_speed)}, {duration(round_trip)})"
    )


def _lossy(own: LinkFigures, compared: _Compared) -> str:
    usual = median(other.lost for other in compared.others)
    return f"loses {own.lost:.1%} of what is sent (others {f'{usual:.1%}' if usual else 'nothing'})"


def _severity(longer: float | None, work: float) -> str:
    """Return the severity by the longer steps, at the levels of a straggler; else by how busy the link is."""
    if longer is None:
        return "critical" if work >= 0.5 else "serious"
    return severity_of(longer)
