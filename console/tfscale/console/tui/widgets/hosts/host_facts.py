"""Facts about the hosts of a cluster, from what the agents of their tasks report."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tfscale.console.engine.events import LinkState
from tfscale.console.engine.model import Snapshot, TaskView
from tfscale.core.cluster.task import Task, subject_task
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.host_sample import UNHEARD, GpuSample, HostSample, PeerLink
from tfscale.core.text import duration, plural

_MOST_READ = 120
"""Hosts whose links are read at once: to decode the counters of a thousand each second would slow the screen down."""
_BUSY_GPU = 0.05
"""Utilisation from which on a GPU is in use."""


@dataclass(frozen=True)
class HostFacts:
    """One host, by the address at which its agents are reached."""

    address: str
    place: int
    """Place in the cluster's order, from 1 on."""
    views: tuple[TaskView, ...]
    """Tasks on it; none on a spare."""
    is_spare: bool
    """True for a host that had no task so far; False also for one whose tasks were placed elsewhere."""
    cordon: str
    """Reason for which no task is placed on it; empty without one."""
    is_missed: bool
    """True where an agent of another host reached it before, and does not any more."""
    at: float

    @property
    def tasks(self) -> tuple[Task, ...]:
        return tuple(view.task for view in self.views)

    @property
    def name(self) -> str:
        """Name by which the host calls itself; empty where it says none, or only its address."""
        names = {view.description.host for view in self.views if view.description} - {self.address}
        return ", ".join(sorted(names))

    @property
    def is_silent(self) -> bool:
        """True where no agent on it answers."""
        return bool(self.views) and all(view.is_stale for view in self.views)

    @property
    def state(self) -> tuple[str, str]:
        """The host's state in a word or two, and its severity."""
        if self.is_silent:
            word, severity = self._silence()
        elif not self.views:
            word, severity = ("spare", "info") if self.is_spare else ("left", "info")
        else:
            ways = sorted({view.link.reason for view in self._answering if view.link.reason})
            word, severity = ", ".join(["up", *ways]), "good"
        if not self.cordon:
            return word, severity
        word = f"{word}, cordoned" if self.views else "cordoned"
        return word, severity if severity == "critical" else "warning"

    def _silence(self) -> tuple[str, str]:
        if all(view.link.state in (LinkState.CONNECTING, LinkState.VACANT, LinkState.MOVED) for view in self.views):
            return "connecting", "info"
        since = min((view.link.since for view in self.views if view.link.since is not None), default=None)
        length = "" if since is None else f" {duration(max(0.0, self.at - since))}"
        return (f"dead{length}", "critical") if self.is_missed else (f"silent{length}", "warning")

    @property
    def _answering(self) -> list[TaskView]:
        return [view for view in self.views if not view.is_stale]

    @cached_property
    def sample(self) -> HostSample | None:
        """Newest counters of an agent on it that answers."""
        frames = [view.frame for view in self._answering if view.frame and view.frame.host]
        return max(frames, key=lambda frame: frame.at).host if frames else None

    @property
    def cores(self) -> tuple[float, float, int] | None:
        """Cores that its tasks use, cores that others use, and all cores; None where that was not measured."""
        sample = self.sample
        usages = [view.frame.cores for view in self._answering if view.frame]
        if sample is None or sample.cpu is None or not usages or any(usage is None for usage in usages):
            return None
        own = sum(usage for usage in usages if usage is not None)
        return own, max(0.0, sample.cpu * sample.cores - own), sample.cores

    @cached_property
    def gpus(self) -> tuple[GpuSample, ...]:
        frames = [view.frame for view in self._answering if view.frame and view.frame.gpus]
        return max(frames, key=lambda frame: frame.at).gpus if frames else ()

    @property
    def foreign_gpus(self) -> int:
        """GPUs that are in use although no task on the host has them; 0 where the tasks do not say which they have."""
        probes = [view.frame.probe for view in self._answering if view.frame]
        if not self.gpus or any(probe is None or probe.devices is None for probe in probes):
            return 0
        own = sum(probe.devices.gpus for probe in probes if probe and probe.devices)
        return max(0, sum((gpu.utilisation or 0.0) > _BUSY_GPU for gpu in self.gpus) - own)


@dataclass(frozen=True, slots=True)
class HostLink:
    """Connections from one host to another one; `own` is the busiest, as TCP measured it."""

    sender: str
    receiver: str
    own: PeerLink
    trouble: Diagnosis | None
    """Open finding about it."""


@dataclass(frozen=True)
class Hosts:
    """All hosts of a cluster at one moment."""

    facts: Sequence[HostFacts] = ()
    links: Mapping[tuple[str, str], HostLink] = field(default_factory=dict)

    @cached_property
    def troubled(self) -> Mapping[str, Sequence[HostLink]]:
        """Links with trouble by each of their ends."""
        found: dict[str, list[HostLink]] = {}
        for link in self.links.values():
            for end in (link.sender, link.receiver) if link.trouble else ():
                found.setdefault(end, []).append(link)
        return found

    @property
    def title(self) -> str:
        """Number of hosts, and of those that need a word."""
        facts = self.facts
        words = [
            (sum(not each.views and each.is_spare for each in facts), "spare"),
            (sum(bool(each.cordon) for each in facts), "cordoned"),
            (sum(each.state[1] == "critical" for each in facts), "dead"),
        ]
        return "   ".join([plural(len(facts), "host"), *(f"{count} {word}" for count, word in words if count)])


def hosts_of(snapshot: Snapshot, near: str = "") -> Hosts:
    """Return the hosts in the order of the cluster's tasks, those without a task last.

    Of many hosts only the links of those around `near` are read, an address, and those with trouble.
    """
    views: dict[str, list[TaskView]] = {}
    for view in snapshot.tasks:
        if view.link.state is not LinkState.VACANT:
            views.setdefault(view.agent.host, []).append(view)
    free = {seat.host: is_spare for seat, is_spare in snapshot.free_seats.items() if seat.host not in views}
    missed = set(_missed(snapshot))
    facts = [
        HostFacts(
            address=address,
            place=place,
            views=tuple(views.get(address, ())),
            is_spare=free.get(address, False),
            cordon=snapshot.cordoned.get(address, ""),
            is_missed=address in missed,
            at=snapshot.at,
        )
        for place, address in enumerate(dict.fromkeys([*views, *free]), 1)
    ]
    addresses = list(views)
    at = addresses.index(near) if near in views else 0
    first = max(0, min(at - _MOST_READ // 2, len(addresses) - _MOST_READ))
    return Hosts(facts, _links(snapshot, set(addresses[first : first + _MOST_READ])))


def _missed(snapshot: Snapshot) -> Iterator[str]:
    """Yield the hosts that neighbours reached before, and do not reach any more."""
    hosts = {str(view.task): view.agent.host for view in snapshot.tasks}
    for view in snapshot.tasks:
        frame = view.frame
        if frame is None or not frame.misses_neighbour or not view.is_up:
            continue
        for neighbour in frame.host.neighbours if frame.host else ():
            if neighbour.reached is not None and frame.at - neighbour.reached > UNHEARD:
                yield hosts.get(neighbour.task, "")


def _links(snapshot: Snapshot, near: Collection[str]) -> dict[tuple[str, str], HostLink]:
    hosts = {str(view.task): view.agent.host for view in snapshot.tasks}
    troubles = _troubles(snapshot, hosts)
    links: dict[tuple[str, str], HostLink] = {}
    read = {*near, *(end for ends in troubles for end in ends)}
    for view in snapshot.tasks:
        is_read = view.agent.host in read and not view.is_stale
        sample = view.frame.host if view.frame and is_read else None
        for link in sample.links if sample else ():
            ends = view.agent.host, _host_of(link.peer, hosts)
            if ends[1] and (ends not in links or links[ends].own.busy < link.busy):
                links[ends] = HostLink(*ends, link, troubles.get(ends))
    return links


def _troubles(snapshot: Snapshot, hosts: Mapping[str, str]) -> dict[tuple[str, str], Diagnosis]:
    found = {}
    for diagnosis in snapshot.findings.diagnoses:
        if diagnosis.kind == "slow_link" and diagnosis.end is None:
            sender = hosts.get(str(subject_task(diagnosis.subject)), "")
            found[sender, _host_of(str(diagnosis.evidence.get("receiver", "")), hosts)] = diagnosis
    return found


def _host_of(peer: str, hosts: Mapping[str, str]) -> str:
    """Return the host of a link's peer, `worker:2 or worker:3` where several tasks of one host may be it."""
    return next((hosts[name] for name in peer.split(" or ") if name in hosts), "")
