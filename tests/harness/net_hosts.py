"""Hosts on one machine: network namespaces joined by a bridge, whose links can be made slow, lossy or cut.

Other processes may do the same at the same time: all names hold this process's id, and no bridge reaches another.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

_NAME = f"tfs{os.getpid()}"
_UNLIMITED = ["tc", "qdisc", "del", "dev"]
_NETWORK = 0x40000000
"""CLONE_NEWNET of <sched.h>."""
_OWNED = re.compile(r"^tfs(\d+)(?:b|[hv]\d+)$")


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
    """Make `count` hosts, and remove them in the end, with what killed processes have left."""
    _remove()
    try:
        _make(count)
        yield
    finally:
        _remove()


def inside(host: int) -> list[str]:
    """Return the words to put before a command so that it runs on a host.

    `ip netns exec` would cover /sys by one without control groups.
    """
    return ["nsenter", f"--net=/run/netns/{_namespace(host)}"]


@contextlib.contextmanager
def entered(host: int) -> Iterator[None]:
    """Let this thread, and what it starts within the block, threads and processes, run on a host."""
    with Path("/proc/thread-self/ns/net").open() as own, Path(f"/run/netns/{_namespace(host)}").open() as other:
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
    space = Path(f"/run/netns/{_namespace(host)}").stat().st_ino
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "ns" / "net").stat().st_ino == space:
                found.append(int(process.name))
    return found


def slow(host: int, rate: float) -> None:
    """Let a host send no more than `rate` bits a second; what others send to it stays as fast as it was."""
    _run(*inside(host), *_limited("eth0", rate))


def narrow(host: int, rate: float) -> None:
    """Let a host send no more than `rate` bits a second, and receive no more, as over a link of this speed."""
    slow(host, rate)
    _run(*_limited(_port(host), rate))


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
    for device in ([*inside(host), *_UNLIMITED, "eth0"], [*_UNLIMITED, _port(host)]):
        subprocess.run([*device, "root"], check=False, stderr=subprocess.DEVNULL)
    _nft(host, "flush chain inet tfscale input")
    _bridge_port(host, forwards=True)


def _namespace(host: int) -> str:
    return f"{_NAME}h{host}"


def _port(host: int) -> str:
    return f"{_NAME}v{host}"


def _limited(device: str, rate: float) -> list[str]:
    limits = ["rate", f"{rate:.0f}bit", "burst", "64kb", "latency", "400ms"]
    return ["tc", "qdisc", "replace", "dev", device, "root", "tbf", *limits]


def _bridge_port(host: int, forwards: bool) -> None:
    # State 3 of the spanning tree forwards, and 0 drops all without taking the carrier from the host.
    _run(*f"bridge link set dev {_port(host)} state {3 if forwards else 0}".split())


def _nft(host: int, rule: str) -> None:
    _run(*inside(host), "nft", *rule.split())


def _make(count: int) -> None:
    bridge = f"{_NAME}b"
    commands = [f"ip link add {bridge} type bridge", f"ip link set {bridge} up"]
    for host in range(count):
        space, port = _namespace(host), _port(host)
        commands += [
            f"ip netns add {space}",
            f"ip link add {port} type veth peer name eth0 netns {space}",
            f"ip link set {port} master {bridge} up",
            f"ip -n {space} addr add {address(host)}/24 dev eth0",
            f"ip -n {space} link set eth0 up",
            f"ip -n {space} link set lo up",
        ]
    for command in commands:
        _run(*command.split())
    for host in range(count):
        _nft(host, "add table inet tfscale")
        _nft(host, "add chain inet tfscale input { type filter hook input priority 0 ; }")


def _remove() -> None:
    # The links first: with a namespace they would go, too, but some time later.
    links = [f"ip link del {name}" for name in _left(Path("/sys/class/net"))]
    namespaces = [f"ip netns del {name}" for name in _left(Path("/run/netns"))]
    for command in (*links, *namespaces):
        subprocess.run(command.split(), check=False, stderr=subprocess.DEVNULL)


def _left(folder: Path) -> list[str]:
    """Return the names in a folder that this process has made, or one that does not live any more."""
    named = [(_OWNED.match(path.name), path.name) for path in folder.glob("tfs*")]
    return [name for match, name in named if match and _is_over(int(match.group(1)))]


def _is_over(process: int) -> bool:
    return process == os.getpid() or not Path(f"/proc/{process}").exists()


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
