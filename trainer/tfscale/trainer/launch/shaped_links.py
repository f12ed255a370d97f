"""Hosts on one machine: network namespaces whose links to each other carry no more than so many bits a second.

None of them has a name. Each lives as long as a process in it: one that holds it, and ends when this process does, also
by SIGKILL, and the agents. So nothing can be left behind. They reach each other and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.text import bit_rate, duration

_UNITS = {"k": 1e3, "m": 1e6, "g": 1e9}
_TEXT = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([kmg])bit(?:,(\d{1,6}(?:\.\d{1,3})?)ms)?", re.IGNORECASE)
_COMMANDS = ("ip", "tc", "nsenter", "unshare")
_BUCKET = 65536
"""Least bytes that may be sent at once: as long as the segments that the kernel hands to a link."""
_QUEUED = 0.4
"""Seconds for which a packet may wait for its turn; what would wait longer is lost, and TCP slows down."""


@dataclass(frozen=True, slots=True)
class Link:
    """Link of a host to all others: what it sends is bounded."""

    rate: float
    """Bits a second."""
    delay: float = 0.0
    """Seconds by which each packet is late: a round trip takes twice as long."""

    def __str__(self) -> str:
        delay = f", each packet {duration(self.delay)} late" if self.delay else ""
        return f"{bit_rate(self.rate)}{delay}"


@dataclass(frozen=True, slots=True)
class LinkedHost:
    """Network namespace."""

    address: str
    pid: int
    """Process that holds it."""

    @property
    def enter(self) -> list[str]:
        """Words before a command that runs on this host."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net"]


def parse_link(text: str) -> Link:
    """Parse `200mbit` or `200mbit,5ms`. Raises ValueError."""
    match = _TEXT.fullmatch(text)
    if match is None or not float(match[1]):
        raise ValueError(f"{text!r} is no link: write for example 200mbit, or 200mbit,5ms")
    return Link(float(match[1]) * _UNITS[match[2].lower()], float(match[3] or 0) / 1000)


def check_links(link: Link) -> None:
    """Check that there can be such links here, by making one. Raises UsageError."""
    if os.geteuid() != 0:
        raise UsageError("--link: a network namespace needs root: call it with sudo, or without --link")
    if lacking := [command for command in _COMMANDS if shutil.which(command) is None]:
        raise UsageError(f"--link needs {' and '.join(lacking)}: install iproute2 and util-linux")
    try:
        with linked_hosts(1, link):
            pass
    except TfscaleError as error:
        raise UsageError(f"--link: {error}") from None


@contextlib.contextmanager
def linked_hosts(count: int, link: Link) -> Iterator[list[LinkedHost]]:
    """Make so many hosts with such links, and end them. Raises TfscaleError."""
    with joined_hosts(count) as (_, hosts):
        for host in hosts:
            _shape(host, link)
        yield hosts


@contextlib.contextmanager
def joined_hosts(count: int) -> Iterator[tuple[LinkedHost, list[LinkedHost]]]:
    """Make so many hosts, joined by the bridge in a namespace of its own that comes before them, and end all of them.

    The bridge's `port0` leads to the first host. Raises TfscaleError.
    """
    with contextlib.ExitStack() as stack:
        bridge = stack.enter_context(_host(""))
        _ip(bridge, ["link add bridge type bridge", "link set bridge up"])
        hosts = []
        for number in range(count):
            host = stack.enter_context(_host(f"10.77.{number // 250}.{number % 250 + 1}"))
            _ip(
                bridge,
                [
                    f"link add port{number} type veth peer name eth0 netns {host.pid}",
                    f"link set port{number} master bridge up",
                ],
            )
            _ip(host, [f"addr add {host.address}/16 dev eth0", "link set eth0 up", "link set lo up"])
            hosts.append(host)
        yield bridge, hosts


@contextlib.contextmanager
def _host(address: str) -> Iterator[LinkedHost]:
    # It ends at the end of its input, which is when the process that holds the other end has ended.
    words = ["unshare", "--net", "cat"]
    holder = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    with holder:
        while _is_here(holder.pid):
            if holder.poll() is not None:
                said = holder.stderr.read().decode(errors="replace") if holder.stderr else ""
                raise TfscaleError(f"no network namespace can be made here: {said.strip()}")
            time.sleep(0.01)
        yield LinkedHost(address, holder.pid)


def _is_here(pid: int) -> bool:
    """Return whether a process is in the namespace of this one, or has ended."""
    try:
        return Path(f"/proc/{pid}/ns/net").samefile("/proc/self/ns/net")
    except OSError:
        return True


def _ip(host: LinkedHost, lines: Sequence[str]) -> None:
    _run([*host.enter, "ip", "-batch", "-"], "\n".join(lines))


def _shape(host: LinkedHost, link: Link) -> None:
    add = [*host.enter, *["tc", "qdisc", "add", "dev", "eth0"]]
    # A bucket that a timer of 250 a second fills must hold what the link sends between two of them.
    bucket = max(_BUCKET, int(link.rate / 8 / 250))
    _run([*add, *f"root handle 1: tbf rate {link.rate:.0f}bit burst {bucket}b latency {_QUEUED * 1000:.0f}ms".split()])
    if link.delay:
        try:
            _run([*add, *f"parent 1: netem delay {link.delay * 1e6:.0f}us limit 100000".split()])
        except TfscaleError as error:
            late = f"packets cannot be made {duration(link.delay)} late here"
            raise TfscaleError(f"{late}: leave that out, or load the module sch_netem ({error})") from None


def _run(command: Sequence[str], told: str = "") -> None:
    """Run a command to its end. Raises TfscaleError with what it says where it fails."""
    ended = subprocess.run(command, input=told, capture_output=True, text=True, check=False, start_new_session=True)
    if ended.returncode:
        words = " ".join(command[2:])
        raise TfscaleError(f"{words}: {' '.join(ended.stderr.split()) or ended.returncode}")


def listens(pid: int, port: int) -> bool:
    """Return whether a port is listened to on the host of a process [proc(5): local address and state 0A].

    It is asked without a connection, since no other host reaches it.
    """
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                _, local, _, state, *_ = line.split()
                if state == "0A" and local.endswith(f":{port:04X}"):
                    return True
    return False
