"""Answer of the kernel about a connection over a link shaped to 60 Mbit/s, and real connections."""

from __future__ import annotations

import socket

import pytest
from tfscale.agent.network.tcp_sockets import connection, established, messages, request

SHAPED = bytes.fromhex(
    "0a01010008ae8fe800000000000000000000ffff0a4d000200000000000000000000ffff0a4d000300000000081000000000"
    "00005c00000000000000182c2f0000000000e0960600050008000000000008000f00000000000c0015000100000000000000"
    "06001600120000001c010200010000000007aa0020b90300e0ab0000a805000055020000d600000000000000000000000000"
    "00000000000000000000000000006401000000000000dc05000000d40000c0a90000f602000008010000d6000000a8050000"
    "87000000000000009038000075000000bc811b1d00000000ffffffffffffffff58d2181400000000843d000000000000818f"
    "030092100000a8712a000700000085000000378f030044b76c0000000000a04b730000000000000000000000000000000000"
    "00000000628e030000000000c00d201400000000f880020000000000750000000500000000000000007c8e01000001000000"
    "000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
)
"""`inet_diag_msg` of worker:1's connection to worker:2, in a ring of three, from Linux 6.18."""


def test_a_slow_link_shows_in_what_the_kernel_tells() -> None:
    read = connection(SHAPED)
    assert read is not None
    assert (read.local, read.remote) == (("10.77.0.2", 2222), ("10.77.0.3", 36840))
    assert (read.acknowledged, read.received, read.unsent, read.in_flight) == (337171032, 15748, 2781608, 309872)
    assert (read.busy, read.held, read.round_trip) == (7.556, 0.0, 0.043456)
    assert (8 * read.delivery_rate, read.is_app_limited) == (56998432, False)
    assert (read.segments, read.sent_again, read.retries, read.silent) == (233271, 0, 0, 0.0)


def test_segments_of_which_the_other_side_had_two_were_not_lost() -> None:
    place = SHAPED.index((117).to_bytes(4, "little"), 250)
    read = connection(SHAPED[:place] + bytes(4) + SHAPED[place + 4 :])
    assert read is not None and read.sent_again == 117


def test_a_kernel_that_tells_too_little_gives_nothing() -> None:
    assert connection(SHAPED[:200]) is None


def test_messages_end_with_the_bytes() -> None:
    data = request(socket.AF_INET)
    assert [kind for kind, _ in messages(data + data)] == [20, 20]
    assert list(messages(data[:10])) == list(messages(bytes(32))) == []


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_both_ends_of_a_real_connection_are_found_by_either_port(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with (
        socket.create_server((host, 0), family=family) as server,
        socket.create_connection(server.getsockname()[:2]) as peer,
        server.accept()[0] as own,
    ):
        own.sendall(b"hello")
        assert peer.recv(5) == b"hello"
        port = server.getsockname()[1]
        found = list(established({port.to_bytes(2)}))
        assert list(established({b"\0\0"})) == []
    sender = next(each for each in found if each.local == (host, port))
    assert len(found) == 2 and sender.remote == peer_name(found, port) and sender.acknowledged >= 5


def peer_name(found: list, port: int) -> tuple[str, int]:
    return next(each.local for each in found if each.remote[1] == port)
