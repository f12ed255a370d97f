"""Hosts of network namespaces: each thing that is done to a link, measured over it, and its end."""

from __future__ import annotations

import subprocess
import sys
import time

import net_hosts
import pytest

pytestmark = pytest.mark.skipif(net_hosts.missing() != "", reason=net_hosts.missing())

_SERVE = "import socket; s = socket.create_server(('0.0.0.0', 7000)); c = s.accept()[0]\nwhile c.recv(1 << 20): pass"
_SEND = """
import socket, sys
connection = socket.create_connection((sys.argv[1], 7000))
connection.sendall(bytes(int(sys.argv[2])))
connection.shutdown(socket.SHUT_WR)
connection.recv(1)
"""
_COUNT = """
import socket
arriving = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
arriving.bind(("0.0.0.0", 7001))
arriving.settimeout(2)
count = 0
try:
    while arriving.recv(100):
        count += 1
except TimeoutError:
    print(count)
"""
_SHOUT = """
import socket, sys, time
leaving = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(int(sys.argv[2])):
    leaving.sendto(bytes(100), (sys.argv[1], 7001))
    time.sleep(0.0005)
"""


def reaches(sender: int, receiver: int) -> bool:
    """Return whether something listens to a connection within a second: an answer, although it is a refusal."""
    program = f"import socket; socket.create_connection(('{net_hosts.address(receiver)}', 7999), timeout=1)"
    done = subprocess.run([*net_hosts.inside(sender), sys.executable, "-c", program], capture_output=True, text=True)
    return "ConnectionRefused" in done.stderr


def seconds_for(size: int) -> float:
    """Return how long host 0 takes to send some bytes to host 1."""
    with subprocess.Popen([*net_hosts.inside(1), sys.executable, "-c", _SERVE]):
        time.sleep(0.3)
        begin = time.monotonic()
        send = [sys.executable, "-c", _SEND, net_hosts.address(1), str(size)]
        subprocess.run([*net_hosts.inside(0), *send], check=True)
        return time.monotonic() - begin


def share_lost(count: int = 1000) -> float:
    """Return the share of so many datagrams from host 0 that do not reach host 1."""
    count_them, shout = [sys.executable, "-c", _COUNT], [sys.executable, "-c", _SHOUT, net_hosts.address(1), str(count)]
    with subprocess.Popen([*net_hosts.inside(1), *count_them], stdout=subprocess.PIPE, text=True) as receiver:
        time.sleep(0.3)
        subprocess.run([*net_hosts.inside(0), *shout], check=True)
        return 1 - int(receiver.communicate()[0]) / count


@pytest.mark.alone
def test_a_slow_host_sends_slowly_and_a_lossy_one_loses_its_share_until_both_are_free() -> None:
    with net_hosts.hosts():
        net_hosts.slow(0, 8e6)
        assert 0.7 < seconds_for(1_000_000) < 2
        net_hosts.free(0)
        assert seconds_for(1_000_000) < 0.5
        net_hosts.lossy(1, 0.2)
        assert 0.1 < share_lost() < 0.3  # TCP may make up for that in a moment
        net_hosts.free(1)
        assert share_lost() < 0.02


def test_a_cut_between_two_leaves_the_third_and_a_cut_of_one_leaves_nobody() -> None:
    with net_hosts.hosts(3):
        assert reaches(0, 1) and reaches(1, 2)
        net_hosts.cut(0, 1)
        assert not reaches(0, 1) and not reaches(1, 0) and reaches(0, 2) and reaches(2, 1)
        for host in (0, 1):
            net_hosts.free(host)
        assert reaches(0, 1)
        net_hosts.cut(2)
        assert not reaches(0, 2) and not reaches(2, 1) and reaches(1, 0)
        net_hosts.free(2)
        assert reaches(2, 1)
