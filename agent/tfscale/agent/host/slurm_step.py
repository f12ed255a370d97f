"""Step of a Slurm job by the variables that srun gives each of its tasks: who sits where, at which ports.

Every task of a step computes the same cluster: what a variable says of one task alone only checks the rest.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from tfscale.core.cluster.cluster_spec import ALONE_NAME, Address, ClusterError
from tfscale.core.cluster.file.slurm_files import step_run
from tfscale.core.cluster.task import Task

_PORTS = range(14336, 30720)
"""Ports of jobs without reserved ones: below those that Linux gives to connections."""
_SLOT = 64
"""Ports of one step at least, so that the jobs of a host have different ones: a job's are those of its number."""
_STEP = 37
"""Slots between two steps of a job, which may run at the same time."""
_PATIENCE = 20.0
"""Seconds for scontrol, which reads a file and asks nobody."""
_CONFIGURATIONS = ("/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf", "/etc/slurm-llnl/slurm.conf")
"""Usual places of Slurm's configuration, where SLURM_CONF names none."""
_KILL_WAIT = 30.0
"""Slurm's default of KillWait."""
_OF_KILL_WAIT = 0.8
"""Part of the time from Slurm's SIGTERM to its SIGKILL that the task has; the rest is for its agent's last words."""
_OTHER_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
"""Sizes by launchers that start their own daemons by srun: where they differ, Slurm's variables number the daemons."""


@dataclass(frozen=True, slots=True)
class SlurmStep:
    """Step of a job, as each of its tasks sees it."""

    job: int
    step: int
    restart: int
    """Number of times that the job was requeued."""
    rank: int
    """Number of this task in the step."""
    hosts: tuple[str, ...]
    seats: tuple[int, ...]
    """Place in `hosts` of each task, by its rank."""
    reserved: tuple[int, ...] = ()
    """Ports that Slurm has reserved for the step on each of its hosts."""

    @property
    def run(self) -> str:
        return step_run(self.job, self.step, self.restart)

    @property
    def host(self) -> str:
        return self.hosts[self.seats[self.rank]]

    def document(self, tasks: Sequence[Task]) -> dict[str, Any]:
        """Return the step as the document of a cluster file; `tasks` has the task of each rank."""
        places = self._places()
        agents = {str(task): str(agent) for task, (_, agent) in zip(tasks, places, strict=True)}
        cluster: dict[str, list[str]] = {}
        for task, (address, _) in zip(tasks, places, strict=True):
            cluster.setdefault(task.role, []).append(str(address))
        return {"name": self.run, "cluster": cluster if len(tasks) > 1 else ALONE_NAME, "agents": agents}

    def _places(self) -> list[tuple[Address, Address]]:
        """Return the addresses of each rank's task and agent: the tasks of a host have the first ports."""
        crowd = max(Counter(self.seats).values())
        ports = [*self.reserved, *self._own_ports(2 * crowd)]
        used: Counter[int] = Counter()
        places = []
        for seat in self.seats:
            host, local = self.hosts[seat], used[seat]
            used[seat] += 1
            places.append((Address(host, ports[local]), Address(host, ports[crowd + local])))
        return places

    def _own_ports(self, count: int) -> range:
        size = _SLOT
        while size < count:
            size *= 2
        slot = (self.job + _STEP * self.step) % (len(_PORTS) // size)
        return _PORTS[slot * size : slot * size + count]


def slurm_step(environment: Mapping[str, str], hostnames: Callable[[str], list[str]] | None = None) -> SlurmStep | None:
    """Return the step whose task this process is; None outside of a step, and in an interactive one.

    Raises ClusterError where the variables do not fit each other.
    """
    size = environment.get("SLURM_STEP_NUM_TASKS")
    if not size or not environment.get("SLURM_PROCID") or "SLURM_PTY_PORT" in environment:
        return None
    if any(environment.get(name, size) != size for name in _OTHER_SIZES):
        return None
    node_list, count = environment.get("SLURM_STEP_NODELIST", ""), _number(environment, "SLURM_STEP_NUM_TASKS")
    hosts = (hostnames or asked_hostnames)(node_list)
    counts = _counts(environment.get("SLURM_STEP_TASKS_PER_NODE", ""))
    if len(hosts) != len(counts) or sum(counts) != count:
        raise ClusterError(
            f"SLURM_STEP_NODELIST: {node_list!r} are {len(hosts)} hosts ({', '.join(hosts[:4])}), and srun has "
            f"{count} tasks on {len(counts)}"
        )
    step = SlurmStep(
        job=_number(environment, "SLURM_JOB_ID"),
        step=_number(environment, "SLURM_STEP_ID"),
        restart=_number(environment, "SLURM_RESTART_COUNT", 0),
        rank=_number(environment, "SLURM_PROCID"),
        hosts=tuple(hosts),
        seats=_seats(counts, environment),
        reserved=_ports(environment.get("SLURM_STEP_RESV_PORTS", "")),
    )
    _check(step, environment)
    return step


def without_others_step(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables without those of a step, where this process is of a batch script.

    sbatch hands them to the script of a job that is submitted in a step of another one.
    """
    if "SLURM_STEP_NUM_TASKS" not in environment or not _is_of_batch_script():
        return environment
    return {name: value for name, value in environment.items() if not name.startswith("SLURM_STEP_")}


def grace_in(environment: Mapping[str, str]) -> float:
    """Return the seconds from SIGTERM to SIGKILL for a task, less than Slurm itself gives."""
    wait = _KILL_WAIT
    for path in filter(None, (environment.get("SLURM_CONF"), *_CONFIGURATIONS)):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            text = Path(path).read_text(encoding="utf-8")
            if (match := re.search(r"^\s*KillWait\s*=\s*(\d+)", text, re.IGNORECASE | re.MULTILINE)) is not None:
                wait = float(match[1])
            break
    return wait * _OF_KILL_WAIT


def asked_hostnames(node_list: str) -> list[str]:
    """Return the hosts of a list such as `tf[1-4]`, which Slurm's own program expands. Raises ClusterError."""
    command = ["scontrol", "show", "hostnames", node_list]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        why = f"no answer in {_PATIENCE:g} s" if isinstance(error, subprocess.TimeoutExpired) else error.strerror
        raise ClusterError(
            f"SLURM_STEP_NODELIST: scontrol cannot be asked for its hosts ({why}): {node_list}"
        ) from None
    if done.returncode:
        raise ClusterError(f"SLURM_STEP_NODELIST: {node_list!r}: {' '.join(done.stderr.split())}")
    return done.stdout.split()


def _is_of_batch_script() -> bool:
    """Decide by the title of the nearest slurmstepd above, such as `slurmstepd: [2.batch]`."""
    with contextlib.suppress(psutil.Error):
        for parent in psutil.Process().parents():
            if (title := " ".join(parent.cmdline())).startswith("slurmstepd:"):
                return ".batch]" in title
    return False


def _check(step: SlurmStep, environment: Mapping[str, str]) -> None:
    """Compare what the step has for this process with what Slurm says of it. Raises ClusterError."""
    if step.rank >= len(step.seats):
        raise ClusterError(f"SLURM_PROCID: {step.rank} is not one of {len(step.seats)} tasks")
    own = [rank for rank, seat in enumerate(step.seats) if seat == step.seats[step.rank]]
    told = environment.get("SLURM_GTIDS", "")
    node = environment.get("SLURMD_NODENAME", step.host)
    if (told and told != ",".join(map(str, own))) or node != step.host:
        raise ClusterError(
            f"task {step.rank} of the step would be on {step.host}, and Slurm has it on {node} with tasks {told}: give "
            "srun --distribution=block"
        )


def _seats(counts: Sequence[int], environment: Mapping[str, str]) -> tuple[int, ...]:
    """Return the host of each rank. Slurm fills hosts in turns of a number of tasks each: 1 if cyclic, all if block."""
    how = environment.get("SLURM_DISTRIBUTION", "block").partition(":")[0].partition(",")[0].lower()
    turn = {"cyclic": 1, "plane": _number(environment, "SLURM_DIST_PLANESIZE", 1)}.get(how, max(counts))
    left, seats = list(counts), list[int]()
    while any(left):
        for host, free in enumerate(left):
            seats += [host] * min(free, turn)
            left[host] -= min(free, turn)
    return tuple(seats)


def _counts(text: str) -> list[int]:
    """Return the numbers of a text such as `2(x3),1`."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:\(x(\d{1,6})\))?", part)
        if match is None or int(match[1]) == 0:
            raise ClusterError(f"SLURM_STEP_TASKS_PER_NODE: {text!r} has another form than 2(x3),1")
        found += [int(match[1])] * int(match[2] or 1)
    return found


def _ports(text: str) -> tuple[int, ...]:
    """Return the ports of a text such as `21000-21003`; none in another form."""
    ports: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part)
        if match is None:
            return ()
        ports += range(int(match[1]), int(match[2] or match[1]) + 1)
    return tuple(ports)


def _number(environment: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = environment.get(name, "" if default is None else str(default))
    if not text.isdecimal() or len(text) > 10:
        raise ClusterError(f"{name}: {text!r} is no number, as srun gives it")
    return int(text)
