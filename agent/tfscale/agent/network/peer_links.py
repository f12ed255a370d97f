"""Collector of TCP's facts about the task's connections to its peers on other hosts, a peer at a time.

TensorFlow's peers fetch from a task: its gradients leave over connections that a peer has made to the task's port. Only
the peer's address tells these connections apart.
"""

from __future__ import annotations

import socket
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence

from tfscale.agent.collector_thread import CollectorThread
from tfscale.agent.network.tcp_sockets import TcpSocket, established
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.task import Task
from tfscale.core.records.host_sample import PeerLink

MOST = 8
"""Most peers in a sample, the busiest first: a ring has two, a parameter server as many as there are workers."""
_RESOLVE = 60.0
"""Seconds after which unresolved host names are tried again."""

_Sockets = dict[bytes, TcpSocket]


class PeerLinkCollector(CollectorThread[tuple[PeerLink, ...]]):
    """Collector of one task's connections. Rates count from the previous sample."""

    def __init__(self, spec: ClusterSpec, task: Task, period: float = 1.0) -> None:
        super().__init__("TCP connections", (), period)
        self._peers = PeerAddresses(spec, task)

    def start(self) -> None:
        """Begin to sample, where there is a peer on another host."""
        if self._peers:
            super().start()

    def _samples(self) -> Generator[tuple[PeerLink, ...]]:
        before: tuple[float, _Sockets] | None = None
        while True:
            self._peers.resolve(time.monotonic())
            now = time.monotonic()
            sockets = {each.cookie: each for each in established(self._peers.ports)}
            by_peer = self._peers.sort(sockets.values())
            links = [] if before is None else _links(by_peer, before[1], now - before[0])
            before = (now, sockets)
            yield tuple(sorted(links, key=lambda link: -link.busy)[:MOST])


class PeerAddresses:
    """Addresses by which the connections to peers on other hosts are known. Empty without such peers."""

    def __init__(self, spec: ClusterSpec, own: Task) -> None:
        self._own = spec.tasks[own]
        self._tasks = {task: at for task, at in spec.tasks.items() if at.host != self._own.host}
        self._by_address: dict[tuple[str, int], str] = {}
        self._by_host: dict[str, list[str]] = defaultdict(list)
        self._unresolved = self._tasks
        self._tried = -_RESOLVE
        self.ports = frozenset(at.port.to_bytes(2) for at in [self._own, *self._tasks.values()])

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def resolve(self, now: float) -> None:
        """Find the addresses of hosts given by name, which may take long; `now` is of any clock."""
        if not self._unresolved or now - self._tried < _RESOLVE:
            return
        self._tried = now
        self._unresolved = {task: at for task, at in self._unresolved.items() if not self._found(task, at)}

    def _found(self, task: Task, at: Address) -> bool:
        try:
            found = {place[0] for *_, place in socket.getaddrinfo(at.host, at.port, type=socket.SOCK_STREAM)}
        except OSError:
            return False
        for host in map(str, found):
            self._by_address[host, at.port] = str(task)
            self._by_host[host].append(str(task))
        return True

    def sort(self, sockets: Iterable[TcpSocket]) -> Mapping[str, Sequence[TcpSocket]]:
        """Return the connections by peer; where several tasks may be the peer, the key names all: `a or b`."""
        by_peer: dict[str, list[TcpSocket]] = defaultdict(list)
        for each in sockets:
            peer = self._by_address.get(each.remote)
            if peer is None and each.local[1] == self._own.port:
                peer = " or ".join(self._by_host.get(each.remote[0], ()))
            if peer:
                by_peer[peer].append(each)
        return by_peer


def _links(by_peer: Mapping[str, Sequence[TcpSocket]], before: _Sockets, seconds: float) -> list[PeerLink]:
    known = {
        peer: [(each, before[each.cookie]) for each in sockets if each.cookie in before]
        for peer, sockets in by_peer.items()
    }
    return [_link(peer, pairs, seconds) for peer, pairs in known.items() if pairs]


def _link(peer: str, pairs: Sequence[tuple[TcpSocket, TcpSocket]], seconds: float) -> PeerLink:
    """Sum up all connections of a peer; times are those of the connection that carried most."""
    main, old = max(pairs, key=lambda pair: (pair[0].acknowledged - pair[1].acknowledged, pair[0].in_flight))
    segments = sum(new.segments - old.segments for new, old in pairs)
    sent_again = sum(max(0, new.sent_again - old.sent_again) for new, old in pairs)
    silent = [new.silent for new, _ in pairs if new.retries and new.in_flight]
    return PeerLink(
        peer=peer,
        sent=sum(new.acknowledged - old.acknowledged for new, old in pairs) / seconds,
        received=sum(new.received - old.received for new, old in pairs) / seconds,
        busy=_share(main.busy - old.busy, seconds),
        held=_share(main.held - old.held, seconds),
        unsent=sum(new.unsent for new, _ in pairs),
        in_flight=sum(new.in_flight for new, _ in pairs),
        round_trip=main.round_trip,
        delivery_rate=main.delivery_rate,
        app_limited=main.is_app_limited,
        retransmitted=sent_again / segments if segments > 0 else None,
        unanswered=max(silent, default=None),
    )


def _share(time_spent: float, seconds: float) -> float:
    # The kernel counts in ticks of its clock, which need not end with ours.
    return min(1.0, max(0.0, time_spent / seconds))
