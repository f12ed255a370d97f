"""Agents with real tasks on this machine's loopback."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}


def write_cluster(folder: Path, workers: int, **others: int) -> Path:
    """A cluster file with free ports; `others` are how many tasks of other roles there are."""
    counts = {"worker": workers, **others}
    names = [f"{role}:{index}" for role, count in counts.items() for index in range(count)]
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(2 * len(names))]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        addresses = [f'"127.0.0.1:{each.getsockname()[1]}"' for each in sockets]
    tasks = iter(addresses)
    roles = [f"{role} = [{', '.join(itertools.islice(tasks, count))}]" for role, count in counts.items()]
    agents = [f'"{name}" = {address}' for name, address in zip(names, tasks, strict=True)]
    path = folder / "cluster.toml"
    path.write_text("\n".join(["[cluster]", *roles, "[agents]", *agents]))
    return path


def start_agent(
    folder: Path,
    cluster: Path,
    index: int,
    command: Sequence[str | Path],
    variables: Mapping[str, str] | None = None,
    role: str = "worker",
    before: Sequence[str] = (),
) -> subprocess.Popen[bytes]:
    """The agent of one task; its state is below `folder`, and `before` is put before its command."""
    flags = ["--cluster", cluster, "--state-dir", folder, "--grace", "5", "--role", role, "--index", str(index)]
    return subprocess.Popen(
        [*before, sys.executable, "-m", "tfscale.agent.cli", *flags, "--", *command],
        env=os.environ | ENVIRONMENT | (variables or {}),
    )


def end(agents: Sequence[subprocess.Popen[bytes]]) -> None:
    """End agents, and with them their tasks."""
    for agent in agents:
        agent.terminate()
    for agent in agents:
        agent.wait(20)


@contextlib.contextmanager
def running(
    folder: Path, cluster: Path, workers: int, command: Sequence[str | Path], variables: Mapping[str, str]
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """All agents of a cluster, until the block ends."""
    agents = [start_agent(folder, cluster, index, command, variables) for index in range(workers)]
    try:
        yield agents
    finally:
        end(agents)
