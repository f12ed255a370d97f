"""Hosts on one machine: network namespaces joined by a bridge, whose links can be made slow, lossy or cut.

Other processes may do the same at the same time: no bridge reaches another. A process has one such set of hosts.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tfscale.trainer.launch.shaped_links import LinkedHost, joined_hosts

_BRIDGE = -1
"""Place of the bridge among what was made; each host is at its number."""
_NETWORK = 0x40000000
"""CLONE_NEWNET of <sched.h>."""
_made: list[LinkedHost] = []
"""Hosts of this process and, at last, their bridge."""


def missing() -> str:
    """Return why there can be no namespaces here; empty where they can be."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if lacking := [command for command in ("ip", "tc", "nft") if not shutil.which(command)]:
        return f"network namespaces need {' and '.join(lacking)}"
    return ""


def address(host: int) -> str:
    return f"10.77.0.{host + 1}"


@contextlib.contextmanager
def hosts(count: int = 2) -> Iterator[None]:
    """Make `count` hosts, and end them."""
    with joined_hosts(count) as (bridge, joined):
        _made[:] = [*joined, bridge]
        for host in range(count):
            _nft(host, "add table inet tfscale")
            _nft(host, "add chain inet tfscale input { type filter hook input priority 0 ; }")
        yield


def inside(host: int) -> list[str]:
    """Return the words to put before a command so that it runs on a host.

    `ip netns exec` would cover /sys by one without control groups.
    """
    return _made[host].enter


@contextlib.contextmanager
def entered(host: int) -> Iterator[None]:
    """Let this thread, and what it starts within the block, threads and processes, run on a host."""
    with Path("/proc/thread-self/ns/net").open() as own, _space(host).open() as other:
        _enter(other.fileno())
        try:
            yield
        finally:
            _enter(own.fileno())


def _enter(namespace: int) -> None:
    # os.setns is there from Python 3.12 on.
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _NETWORK):
        raise OSError(ctypes.get_errno(), "setns")


def processes(host: int) -> list[int]:
    """Return the ids of the processes that run on a host."""
    space = _space(host).stat().st_ino
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_holder = int(process.name) == _made[host].pid
            if (process / "ns" / "net").stat().st_ino == space and not is_holder:
                found.append(int(process.name))
    return found


def slow(host: int, rate: float) -> None:
    """Let a host send no more than `rate` bits a second; what others send to it stays as fast as it was."""
    _limit(host, "eth0", rate)


def narrow(host: int, rate: float) -> None:
    """Let a host send no more than `rate` bits a second, and receive no more, as over a link of this speed."""
    slow(host, rate)
    _limit(_BRIDGE, f"port{host}", rate)


def lossy(host: int, share: float) -> None:
    """Lose this share of the packets that others send to a host."""
    _nft(host, f"add rule inet tfscale input numgen random mod 10000 < {share * 10000:.0f} drop")


def cut(host: int, other: int | None = None) -> None:
    """Lose all packets between two hosts, or between one and all others; nobody is told, as with a broken switch."""
    if other is None:
        _bridge_port(host, forwards=False)
        return
    for receiver, sender in ((host, other), (other, host)):
        _nft(receiver, f"add rule inet tfscale input ip saddr {address(sender)} drop")


def free(host: int) -> None:
    """End all that was done to a host's link. A cut between two hosts ends when both are free."""
    for place, device in ((host, "eth0"), (_BRIDGE, f"port{host}")):
        unlimit = [*inside(place), "tc", "qdisc", "del", "dev", device, "root"]
        subprocess.run(unlimit, check=False, stderr=subprocess.DEVNULL)
    _nft(host, "flush chain inet tfscale input")
    _bridge_port(host, forwards=True)


def _space(host: int) -> Path:
    return Path(f"/proc/{_made[host].pid}/ns/net")


def _limit(place: int, device: str, rate: float) -> None:
    limits = ["rate", f"{rate:.0f}bit", "burst", "64kb", "latency", "400ms"]
    _run(*inside(place), "tc", "qdisc", "replace", "dev", device, "root", "tbf", *limits)


def _bridge_port(host: int, forwards: bool) -> None:
    # State 3 of the spanning tree forwards, and 0 drops all without taking the carrier from the host.
    _run(*inside(_BRIDGE), *f"bridge link set dev port{host} state {3 if forwards else 0}".split())


def _nft(host: int, rule: str) -> None:
    _run(*inside(host), "nft", *rule.split())


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
