"""A cluster on hosts that a launcher reaches, such as srun, mpirun or a script around ssh: it starts the agents there.

Only the launcher's own process is known here. It is asked to end by SIGTERM, which srun and mpirun pass on. All hosts
see the folder of the run.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfscale.core.cluster.file.cluster_file import load_cluster
from tfscale.core.cluster.task import Role, Task
from tfscale.core.errors import UsageError
from tfscale.core.metrics.page_address import without_page
from tfscale.core.text import plural
from tfscale.trainer.launch.local_cluster import BIN, GRACE, LocalCluster, begin, end, uninterrupted

_FIRST = Task(Role.WORKER, 0)
_PATIENCE = GRACE + 25.0
"""Seconds for a launcher to end after SIGTERM: srun gives what it ends up to 30 s."""


@dataclass(frozen=True, slots=True)
class Launcher:
    """Launcher of so many agents."""

    words: Sequence[str]
    cluster: str = ""
    """Cluster file of these agents, as JSON; empty: they know their cluster by the launcher's variables."""
    is_insecure: bool = False
    """True where that file names no certificates."""


class LaunchedCluster(LocalCluster):
    """The launcher in the place of all agents; what it prints is the log of them and of their tasks."""

    __slots__ = ()

    def killed_by(self, _: Task) -> int | None:
        """Return None: on which host a task was, and how it ended, is not known here."""
        return None

    def agent_log(self, task: Task) -> str:
        """Return the newest lines that were printed."""
        return self.task_log(task).decode(errors="replace")[-2000:]

    def task_log(self, _: Task, begin: int = 0) -> bytes:
        """Return all that was printed, from this byte on."""
        return self.logs.read_bytes()[begin:]


def launcher_of(words: Sequence[str], cluster: Path | None, workers: int) -> Launcher:
    """Return the launcher of so many workers, the first ones of a cluster file where one is given.

    Raises UsageError, and ClusterError.
    """
    document, hosts = ({}, []) if cluster is None else _first_workers(cluster, workers)
    given = {"{workers}": str(workers), "{hosts}": ",".join(hosts)}
    for name, value in given.items():
        words = [word.replace(name, value) for word in words]
    return Launcher(words, json.dumps(document) if document else "", bool(document) and "tls" not in document)


def _first_workers(path: Path, workers: int) -> tuple[dict[str, Any], list[str]]:
    """Return the document of a cluster file with its first workers alone, and their hosts."""
    spec = load_cluster(path)
    if {task.role for task in spec.tasks} != {Role.WORKER}:
        raise UsageError(f"--cluster {path}: scale varies workers, and it has other tasks, too")
    if workers > len(spec.tasks):
        raise UsageError(f"--cluster {path}: has {plural(len(spec.tasks), 'worker')}, and --sizes names {workers}")
    kept = list(spec.tasks.items())[:workers]
    document: dict[str, Any] = {
        "name": spec.name,
        "cluster": {"worker": [str(address) for _, address in kept]},
        "agents": {str(task): str(spec.agents[task]) for task, _ in kept},
    }
    if tls := spec.tls:
        files = {name: str(getattr(tls, name).absolute()) for name in ("ca", "certificate", "key")}
        document["tls"] = {**files, "roles": "on" if tls.has_roles else "off"}
    return document, list(dict.fromkeys(address.host for _, address in kept))


@contextlib.contextmanager
def launched_cluster(
    folder: Path,
    launcher: Launcher,
    *,
    command: Sequence[str | Path],
    flags: Sequence[str],
    variables: Mapping[str, str],
) -> Iterator[LaunchedCluster]:
    """Start the agents by their launcher, and end it at the end of the block: it is killed where it does not end.

    Args:
        folder: that all hosts see; it has the states and the log.
        launcher: of the agents.
        command: program of every task.
        flags: further flags of the agents.
        variables: of the tasks' environment: not every launcher passes its own on.
    """
    path, log = folder / "cluster.json", folder / "log"
    if launcher.cluster:
        path.write_text(launcher.cluster)
        flags = [*flags, "--cluster", str(path), *(["--insecure"] if launcher.is_insecure else [])]
    own = ["--show-output", "--state-dir", str(folder / "state"), "--grace", str(GRACE), *flags]
    given = ["env", *(f"{name}={value}" for name, value in variables.items())]
    with uninterrupted(), log.open("wb") as file:
        process = subprocess.Popen(
            [*launcher.words, *given, BIN / "tfscale-agent", *own, "--", *command],
            env=without_page(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            preexec_fn=functools.partial(begin, os.getpid(), ()),
        )
    try:
        yield LaunchedCluster(path, log, {_FIRST: process})
    finally:
        end([process], _PATIENCE)
