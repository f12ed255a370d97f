"""Clusters on this machine alone: one task that belongs to no cluster, and several at free ports of loopback."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfscale.core.cluster.cluster_spec import DEFAULT_AGENT_PORT, NOWHERE, Address, ClusterSpec
from tfscale.core.cluster.task import Role, Task

LOOPBACK = "127.0.0.1"


def lone_cluster(run: str) -> ClusterSpec:
    """Return the spec of a single task outside of any cluster; its agent serves this machine only."""
    task = Task(Role.WORKER, 0)
    return ClusterSpec(run, {task: NOWHERE}, {task: free_loopback(DEFAULT_AGENT_PORT)})


def run_of(command: Sequence[str], directory: Path) -> str:
    """Return a name for runs of this command in this folder, always the same: `train-3f2a91c0`."""
    identity = "\0".join((str(directory.absolute()), *command))
    stem = re.sub(r"[^\w.-]+", "-", _program(command)).lstrip("-.") or "run"
    return f"{stem}-{hashlib.sha256(os.fsencode(identity)).hexdigest()[:8]}"


def _program(command: Sequence[str]) -> str:
    words = list(command)
    if "-m" in words[:-1]:
        return words[words.index("-m") + 1]
    return Path(next((word for word in words if word.endswith(".py")), words[0])).stem


def write_lone_cluster(path: Path, port: int = DEFAULT_AGENT_PORT) -> Path:
    """Write the file of one task that belongs to no cluster; its agent serves at this port if it is free, 0: at any."""
    address = free_loopback(port)
    path.write_text(f'cluster = "alone"\n\n[agents]\n"worker:0" = "{address}"\n')
    return path


def write_local_cluster(
    path: Path, tasks: Mapping[str, int], tables: Sequence[str] = (), hosts: Sequence[str] = ()
) -> Path:
    """Write a cluster file with free ports of this machine, for a number of tasks of each role.

    Args:
        path: of the file.
        tasks: number of tasks by role.
        tables: lines of further tables.
        hosts: address of the host of each task; none: loopback.
    """
    names = [f"{role}:{index}" for role, number in tasks.items() for index in range(number)]
    # The ports are free on this machine's loopback; a host of its own, which is new, has no other.
    places = 2 * list(hosts or [LOOPBACK] * len(names))
    addresses = [f"{host}:{port}" for host, port in zip(places, _free_ports(2 * len(names)), strict=True)]
    of_agents = dict(zip(names, addresses[len(names) :], strict=True))
    free = iter(addresses)
    roles = [f"{role} = {json.dumps([next(free) for _ in range(number)])}" for role, number in tasks.items()]
    agents = [f'"{name}" = "{address}"' for name, address in of_agents.items()]
    path.write_text("\n".join(["[cluster]", *roles, "", "[agents]", *agents, *tables, ""]))
    return path


def is_free(address: Address) -> bool:
    """Return whether the address belongs to this machine, and no server uses it."""
    return free_loopback(address.port) == address


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for opened in sockets:
            opened.bind((LOOPBACK, 0))
        return [opened.getsockname()[1] for opened in sockets]


def free_loopback(preferred: int = 0) -> Address:
    """Return an address that only this machine reaches, at this port if it is free; 0 means any port."""
    with socket.socket() as probe:
        # As a server does: a port whose last connections are being forgotten is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, preferred))
        except OSError:
            probe.bind((LOOPBACK, 0))
        return Address(LOOPBACK, probe.getsockname()[1])
