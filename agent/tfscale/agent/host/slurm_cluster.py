"""Cluster file of a Slurm step, which the agent of its first task writes beside the logs, with certificates.

The state folder has to be one of all hosts, as a home usually is: whoever can read that folder is this user, and every
agent and console takes its certificate from there. In plain text (`--insecure`) each agent writes the file for itself.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tfscale.agent.host.slurm_step import SlurmStep
from tfscale.agent.host.task_roles import numbered_tasks
from tfscale.agent.preflight.task_port import port_problem, served_port
from tfscale.core.access.caller_role import CallerRole
from tfscale.core.cluster.cluster_spec import ClusterError, ClusterSpec
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.file.slurm_files import CLUSTER_FILE
from tfscale.core.cluster.local.private_folder import make_private
from tfscale.core.cluster.task import Task
from tfscale.core.cluster.task_files import state_folder
from tfscale.core.files.whole_file import write_whole

_PATIENCE = 120.0
"""Seconds for the first task's agent to write the file, and for other hosts to see it: NFS remembers for 30 s what is
not there."""
_LOOKS = (0.05, 2.0)
"""Seconds from one look for the file to the next: the first, and the longest."""
_TRIAL = 4096
"""Bytes of a trial to write: a full disk takes an empty file."""
_DAYS = 3650
"""Validity of the certificates: a step never renews them."""
_TLS = {"ca": "ca.pem", "certificate": "certificate.pem", "key": "key.pem", "roles": "off"}
"""Table [tls] of the file. All agents and consoles are this user's: one certificate for all."""


def step_cluster(step: SlurmStep, chosen: Mapping[str, Any], state_dir: Path) -> tuple[Path, Task]:
    """Return the cluster file of a step, and the task of this process. Raises ClusterError, and then starts nothing."""
    tasks = numbered_tasks(len(step.seats), chosen)
    document = step.document(tasks)
    spec = parse_cluster(document, name=step.run, where="Slurm", base=Path())
    own = tasks[step.rank]
    _check_hosts(step, first=step.rank == 0)
    _check_ports(spec, own)
    path = state_folder(state_dir, chosen.get("run", step.run), spec) / CLUSTER_FILE
    if chosen.get("insecure", False):
        _write(path, document, {})
    elif step.rank == 0:
        _write_with_certificates(path, document, step.hosts)
    else:
        _await(path, step)
    return path, own


def _check_hosts(step: SlurmStep, *, first: bool) -> None:
    """Look up the names of the hosts; the first task's agent those of all. Raises ClusterError."""
    names = dict.fromkeys(step.hosts) if first else (step.hosts[0], step.host)
    for name in names:
        try:
            socket.getaddrinfo(name, None)
        except OSError as error:
            raise ClusterError(
                f"SLURM_STEP_NODELIST: the name of host {name} does not resolve on {step.host} ({error.strerror})"
            ) from None


def _check_ports(spec: ClusterSpec, own: Task) -> None:
    """Raise ClusterError where another program has a port of this task or of its agent."""
    for port, whose in ((served_port(spec, own), own), (spec.agents[own].port, f"the agent of {own}")):
        if port is not None and (problem := port_problem(port)):
            host = spec.agents[own].host
            raise ClusterError(f"port {port} of {host}, for {whose}, is {problem}, or start another step")


def _write_with_certificates(path: Path, document: Mapping[str, Any], hosts: Sequence[str]) -> None:
    """Write the file and what its [tls] names, unless an earlier program of the step has."""
    if path.exists():
        return
    # Only this agent makes certificates; a library for them takes a tenth of a second to import.
    from tfscale.agent.certificates.authority import Authority

    authority = Authority.new(datetime.now(UTC))
    own = authority.sign(path.parent.name, CallerRole.AGENT, list(dict.fromkeys(hosts)), _DAYS)
    pem = {"ca": authority.certificate, "certificate": own.certificate, "key": own.key}
    _write(path, {**document, "tls": _TLS}, {_TLS[name]: content for name, content in pem.items()})


def _write(path: Path, document: Mapping[str, Any], others: Mapping[str, bytes]) -> None:
    """Write the cluster file after the others, each as a whole. Raises ClusterError."""
    with _writing(path):
        for name, content in {**others, path.name: json.dumps(document, indent=1).encode()}.items():
            write_whole(path.with_name(name), content, is_private=True)


def _try_to_write(path: Path, rank: int) -> None:
    """Write and remove a file beside the cluster file. Raises ClusterError."""
    with _writing(path):
        write_whole(trial := path.with_name(f"{rank}.trial"), bytes(_TRIAL), is_private=True)
        trial.unlink(missing_ok=True)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Make the folder of the cluster file, and raise ClusterError where the block cannot write there."""
    try:
        if (why := make_private(path.parent)) is not None:
            raise ClusterError(f"{path.parent}: cannot keep the cluster of the step there ({why}): give --state-dir")
        yield
    except OSError as error:
        raise ClusterError(f"{path}: cannot be written ({error.strerror}): give --state-dir") from None


def _await(path: Path, step: SlurmStep) -> None:
    """Wait for the file of the first task's agent. Raises ClusterError.

    Nobody waits where no file can be written: the first task's agent cannot either, where the hosts share the folder.
    """
    _try_to_write(path, step.rank)
    deadline, pause = time.monotonic() + _PATIENCE, _LOOKS[0]
    while not path.exists():
        if time.monotonic() > deadline:
            raise ClusterError(
                f"{path}: not written within {_PATIENCE:g} s by the agent of task 0 on {step.hosts[0]}: if that agent "
                "runs, give all --state-dir with a folder that all hosts share, or --insecure"
            )
        time.sleep(pause)
        pause = min(2 * pause, _LOOKS[1])
