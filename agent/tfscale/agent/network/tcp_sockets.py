"""Established TCP connections of this network namespace, as the kernel lists them over netlink (sock_diag(7)).

No root is needed. The package pyroute2 reads the same, but importing it takes 22 MB and 0.3 s of CPU, a third of what
an agent may have, and only two messages are needed.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Container, Iterator
from contextlib import closing
from dataclasses import dataclass

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_REQUEST_DUMP = 0x301
"""NLM_F_REQUEST and NLM_F_DUMP."""
_INET_DIAG_INFO = 2
_ESTABLISHED = 1 << 1
_PATIENCE = 1.0
"""Seconds for the kernel's next answer; it comes at once."""
_RECEIVE = 1 << 18
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI48x")
_MESSAGE = struct.Struct("=BBBB2s2s16s16sI8sIIIII")
_LOCAL_PORT, _REMOTE_PORT = slice(4, 6), slice(6, 8)
"""Places of the two ports in the body of `_MESSAGE`, in network order."""
_ATTRIBUTE = struct.Struct("=HH")
_MAPPED = bytes(10) + b"\xff\xff"
"""First bytes of an IPv6 address that stands for an IPv4 address."""

_TCP_INFO = struct.Struct("=8B 24I 4Q 6I 4Q 2I 2Q I")
"""`struct tcp_info` (linux/tcp.h) up to `dsack_dups`; newer kernels only add to its end."""
_RETRANSMITS, _APP_LIMITED, _SND_MSS, _UNACKED, _LAST_ACK_RECV, _RTT, _TOTAL_RETRANS = 2, 7, 10, 12, 20, 23, 31
_BYTES_ACKED, _BYTES_RECEIVED, _NOTSENT_BYTES, _DATA_SEGS_OUT, _DELIVERY_RATE = 34, 35, 38, 41, 42
_BUSY_TIME, _RWND_LIMITED, _DSACK_DUPS = 43, 44, 50
"""Places of these fields in `tcp_info`."""


@dataclass(frozen=True, slots=True)
class TcpSocket:
    """One established connection. Counts and times are since it was made; bytes are those of the program."""

    cookie: bytes
    """Name that the kernel gives to no other connection."""
    local: tuple[str, int]
    remote: tuple[str, int]
    acknowledged: int
    """Bytes that the other side has."""
    received: int
    unsent: int
    """Bytes that wait in this kernel, and were never sent."""
    in_flight: int
    """Bytes, in full segments, that were sent and are not acknowledged."""
    busy: float
    """Seconds in which bytes were not acknowledged."""
    held: float
    """Seconds of `busy` in which the receive window was full: the other program did not read."""
    round_trip: float
    """Seconds, smoothed."""
    delivery_rate: float
    """Bytes a second that the kernel measured last."""
    is_app_limited: bool
    """True where the program limited that rate, because it had nothing to send."""
    segments: int
    """Segments with data that were sent."""
    sent_again: int
    """Lost segments that were sent again; a segment that reached the other side twice is not counted."""
    retries: int
    """Times that the oldest unacknowledged segment has timed out in a row; 0 while the other side answers."""
    silent: float
    """Seconds since the other side acknowledged anything."""


def established(ports: Container[bytes]) -> Iterator[TcpSocket]:
    """Yield the established connections whose local or remote port (two bytes in network order) is in `ports`.

    Raises OSError where the kernel does not answer.
    """
    with closing(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)) as asked:
        asked.settimeout(_PATIENCE)
        for family in (socket.AF_INET, socket.AF_INET6):
            asked.send(request(family))
            yield from _answers(asked, ports)


def request(family: int) -> bytes:
    """Return the message that asks for all established connections of an address family, with their `tcp_info`."""
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (_INET_DIAG_INFO - 1), _ESTABLISHED)
    return _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 0, 0) + body


def _answers(asked: socket.socket, ports: Container[bytes]) -> Iterator[TcpSocket]:
    while True:
        for kind, body in messages(asked.recv(_RECEIVE)):
            if kind == _NLMSG_DONE:
                return
            if kind == _NLMSG_ERROR:
                number = -struct.unpack_from("=i", body)[0]
                raise OSError(number, "the kernel does not tell its TCP connections")
            if (body[_LOCAL_PORT] in ports or body[_REMOTE_PORT] in ports) and (read := connection(body)) is not None:
                yield read


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the type and the body of each netlink message in a datagram."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size:
            return
        yield kind, data[at + _HEADER.size : at + length]
        at += _aligned(length)


def connection(body: bytes) -> TcpSocket | None:
    """Return the connection of an `inet_diag_msg`, None where the kernel tells too little (before Linux 4.19)."""
    family, _, _, _, *ends, _, cookie, _, _, _, _, _ = _MESSAGE.unpack_from(body)
    info = _attribute(body, _INET_DIAG_INFO)
    if len(info) < _TCP_INFO.size:
        return None
    local_port, remote_port, local, remote = ends
    return _read(
        cookie,
        (_address(family, local), int.from_bytes(local_port)),
        (_address(family, remote), int.from_bytes(remote_port)),
        info,
    )


def _read(cookie: bytes, local: tuple[str, int], remote: tuple[str, int], info: bytes) -> TcpSocket:
    counters = _TCP_INFO.unpack_from(info)
    return TcpSocket(
        cookie=cookie,
        local=local,
        remote=remote,
        acknowledged=counters[_BYTES_ACKED],
        received=counters[_BYTES_RECEIVED],
        unsent=counters[_NOTSENT_BYTES],
        in_flight=counters[_UNACKED] * counters[_SND_MSS],
        busy=counters[_BUSY_TIME] / 1e6,
        held=counters[_RWND_LIMITED] / 1e6,
        round_trip=counters[_RTT] / 1e6,
        delivery_rate=float(counters[_DELIVERY_RATE]),
        is_app_limited=bool(counters[_APP_LIMITED] & 1),
        segments=counters[_DATA_SEGS_OUT],
        sent_again=max(0, counters[_TOTAL_RETRANS] - counters[_DSACK_DUPS]),
        retries=counters[_RETRANSMITS],
        silent=counters[_LAST_ACK_RECV] / 1e3,
    )


def _attribute(body: bytes, wanted: int) -> bytes:
    at = _MESSAGE.size
    while at + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, at)
        if kind == wanted or length < _ATTRIBUTE.size:
            return body[at + _ATTRIBUTE.size : at + length]
        at += _aligned(length)
    return b""


def _address(family: int, data: bytes) -> str:
    """Return an address as text; an IPv6 address that stands for an IPv4 address as the latter."""
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, data[:4])
    if data.startswith(_MAPPED):
        return socket.inet_ntop(socket.AF_INET, data[12:])
    return socket.inet_ntop(socket.AF_INET6, data)


def _aligned(length: int) -> int:
    return length + 3 & ~3
