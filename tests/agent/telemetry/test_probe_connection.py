"""Messages of a training process, read from a real socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from tfscale.agent.telemetry.probe_connection import ProbeConnection
from tfscale.core.wire.framing import LONGEST, FramingError, framed


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, ProbeConnection]]:
    process, agent = socket.socketpair()
    connection = ProbeConnection(agent)
    with process:
        yield process, connection
    connection.close()


def test_messages_are_read_whole_however_they_arrive(ends: tuple[socket.socket, ProbeConnection]) -> None:
    process, connection = ends
    data = framed(b"one") + framed(b"") + framed(b"three")
    assert list(connection.messages()) == []
    process.sendall(data[:-2])
    assert list(connection.messages()) == [b"one", b""]
    process.sendall(data[-2:])
    assert list(connection.messages()) == [b"three"]
    assert not connection.is_over


def test_a_message_that_the_process_did_not_finish_is_dropped(ends: tuple[socket.socket, ProbeConnection]) -> None:
    process, connection = ends
    process.sendall(framed(b"first") + framed(b"second")[:-1])
    process.close()
    assert list(connection.messages()) == [b"first"]
    assert connection.is_over
    connection.reply(b"the process has gone")


def test_a_length_of_another_protocol_is_refused(ends: tuple[socket.socket, ProbeConnection]) -> None:
    process, connection = ends
    process.sendall((LONGEST + 1).to_bytes(4, "big"))
    with pytest.raises(FramingError):
        list(connection.messages())
