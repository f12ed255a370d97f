"""Connections of a task to peers on other hosts: addresses of the loopback stand for hosts."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tfscale.agent.network.peer_links import MOST, PeerLinkCollector
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.task import Task
from tfscale.core.records.host_sample import PeerLink

OWN, PEER = "127.0.0.1", "127.0.0.2"


def cluster(*workers: str) -> ClusterSpec:
    agents = {f"worker:{index}": f"127.0.0.1:{7070 + index}" for index in range(len(workers))}
    document = {"cluster": {"worker": [*workers]}, "agents": agents}
    return parse_cluster(document, name="test", where="test", base=Path.cwd())


@contextmanager
def listening(host: str) -> Iterator[socket.socket]:
    with socket.create_server((host, 0)) as server:
        yield server


@contextmanager
def fetched(server: socket.socket, host: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Connect from a host, as a peer does that fetches, and yield the ends of task and peer."""
    with (
        socket.create_connection(server.getsockname(), source_address=(host, 0)) as peer,
        server.accept()[0] as own,
    ):
        yield own, peer


def port(server: socket.socket) -> int:
    return int(server.getsockname()[1])


def sampled(spec: ClusterSpec, change: list[tuple[socket.socket, bytes]]) -> tuple[PeerLink, ...]:
    """Return what worker:0 says of the time in which these bytes were sent."""
    samples = PeerLinkCollector(spec, Task.parse("worker:0"))._samples()
    assert next(samples) == (), "rates count from the previous sample"
    for connection, data in change:
        connection.sendall(data)
    time.sleep(0.2)
    return next(samples)


def test_what_a_peer_fetches_is_a_link_to_it_and_what_nobody_reads_waits() -> None:
    with listening(OWN) as own, fetched(own, PEER) as (sends, _):
        sends.setblocking(False)
        spec = cluster(f"{OWN}:{port(own)}", f"{PEER}:2222")
        samples = PeerLinkCollector(spec, Task.parse("worker:0"))._samples()
        next(samples)
        with pytest.raises(BlockingIOError):
            while True:
                sends.send(bytes(1 << 20))
        time.sleep(1)
        (link,) = next(samples)
    assert link.peer == "worker:1"
    assert link.unsent > 100_000 and link.sent > 100_000 and link.held > 0.5 and not link.app_limited
    assert link.unanswered is None, "a host whose process does not read answers"


def test_the_tasks_own_connection_to_a_peers_port_is_of_the_same_link() -> None:
    with listening(OWN) as own, listening(PEER) as other, ExitStack() as stack:
        asks, _ = stack.enter_context(fetched(other, OWN))[::-1]
        sends, _ = stack.enter_context(fetched(own, PEER))
        spec = cluster(f"{OWN}:{port(own)}", f"{PEER}:{port(other)}")
        links = sampled(spec, [(sends, bytes(50_000)), (asks, bytes(500))])
    assert [link.peer for link in links] == ["worker:1"]
    assert 50_500 / 2 < links[0].sent < 50_500 / 0.2 and links[0].unsent == 0 and links[0].round_trip < 0.1


def test_of_several_tasks_on_one_host_a_fetching_one_may_be_any() -> None:
    with listening(OWN) as own, fetched(own, PEER) as (sends, _):
        links = sampled(cluster(f"{OWN}:{port(own)}", f"{PEER}:2222", f"{PEER}:2223"), [(sends, b"x")])
    assert [link.peer for link in links] == ["worker:1 or worker:2"]


def test_connections_within_a_host_and_to_strangers_are_no_links() -> None:
    with listening(OWN) as own, fetched(own, OWN) as (near, _), fetched(own, "127.0.0.9") as (strange, _):
        spec = cluster(f"{OWN}:{port(own)}", f"{OWN}:{port(own) + 1}", f"{PEER}:2222")
        assert sampled(spec, [(near, b"x"), (strange, b"x")]) == ()


def test_the_busiest_of_many_peers_are_told() -> None:
    hosts = [f"127.0.1.{number}" for number in range(1, 31)]
    with listening(OWN) as own, ExitStack() as stack:
        sends = [stack.enter_context(fetched(own, host))[0] for host in hosts]
        links = sampled(
            cluster(f"{OWN}:{port(own)}", *(f"{host}:2222" for host in hosts)), [(each, b"x") for each in sends]
        )
    assert len(links) == MOST


def test_a_host_that_cannot_be_resolved_is_asked_for_again_a_minute_later() -> None:
    with listening(OWN) as own, fetched(own, PEER) as (sends, _):
        spec = cluster(f"{OWN}:{port(own)}", "nowhere.invalid:2222", f"{PEER}:2222")
        assert [link.peer for link in sampled(spec, [(sends, b"x")])] == ["worker:2"]


def test_a_task_whose_peers_are_all_on_its_host_is_not_sampled() -> None:
    collector = PeerLinkCollector(cluster(f"{OWN}:2222", f"{OWN}:2223"), Task.parse("worker:0"))
    collector.start()
    assert not collector._thread.is_alive() and collector.latest() == ()
