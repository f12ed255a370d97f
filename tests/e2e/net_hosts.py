"""Two hosts on one machine: network namespaces joined by a bridge, and a link between them that can be made slow."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator

ADDRESSES = ("10.77.0.1", "10.77.0.2")


def missing() -> str:
    """Return why there can be no namespaces here; empty where they can be."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not (shutil.which("ip") and shutil.which("tc")):
        return "network namespaces need ip and tc"
    return ""


@contextlib.contextmanager
def hosts() -> Iterator[None]:
    """Make the two hosts, and remove them in the end."""
    _remove()
    try:
        _make()
        yield
    finally:
        _remove()


def inside(host: int) -> list[str]:
    """Return the words to put before a command so that it runs on a host."""
    return ["ip", "netns", "exec", f"tfscale{host}"]


def slow(host: int, rate: float) -> None:
    """Let a host send no more than `rate` bits a second."""
    limits = ["rate", f"{rate:.0f}bit", "burst", "64kb", "latency", "400ms"]
    subprocess.run([*inside(host), "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", *limits], check=True)


def free(host: int) -> None:
    """Let a host send as fast as it can."""
    subprocess.run([*inside(host), "tc", "qdisc", "del", "dev", "eth0", "root"], check=True)


def _make() -> None:
    commands = ["ip link add tfscale-b type bridge", "ip link set tfscale-b up"]
    for host, address in enumerate(ADDRESSES):
        commands += [
            f"ip netns add tfscale{host}",
            f"ip link add tfscale-v{host} type veth peer name eth0 netns tfscale{host}",
            f"ip link set tfscale-v{host} master tfscale-b up",
            f"ip -n tfscale{host} addr add {address}/24 dev eth0",
            f"ip -n tfscale{host} link set eth0 up",
            f"ip -n tfscale{host} link set lo up",
        ]
    for command in commands:
        subprocess.run(command.split(), check=True)


def _remove() -> None:
    # The links first: with a namespace they would go, too, but some time later.
    links = [f"ip link del tfscale-v{host}" for host in range(len(ADDRESSES))]
    namespaces = [f"ip netns del tfscale{host}" for host in range(len(ADDRESSES))]
    for command in ("ip link del tfscale-b", *links, *namespaces):
        subprocess.run(command.split(), check=False, stderr=subprocess.DEVNULL)
