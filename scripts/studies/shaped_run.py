"""One training of real workers on hosts of their own, whose links have a known speed, and what was measured of it.

Hosts are network namespaces of this machine. Times, phases and payload are what tfscale's probe has measured; the bytes
on each link are the counters of the host's interface, read beside the training.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import net_hosts
import numpy as np
from local_cluster import start_agent, tasks_of
from tfscale.core.comparison.judgement import quick_step
from tfscale.core.comparison.step_times import settled
from tfscale.core.errors import TfscaleError
from tfscale.core.records.step_batch import PHASES
from tfscale.trainer.compare.measured_run import StepFiles
from tfscale.trainer.launch.local_cluster import BIN, SHARED
from tfscale.trainer.launch.result import read_result

PORT, AGENT_PORT = 2222, 7070
PAUSE = 0.1
"""Seconds between two looks at the counters of the interfaces."""
LEAVING = 10.0
"""Seconds between the ends of tasks that have trained together."""
PRIORITY = -10
"""Niceness of workers that train. At a load of 14 to 16, steps of two workers on 200 Mbit/s took 454 ms with niceness 0
and 368 ms with this (one run each)."""


class NotTrained(TfscaleError):
    """A training of a study did not end well."""


@dataclass(frozen=True)
class Setting:
    """A training that a study asks for."""

    name: str
    words: Sequence[str]
    """Words of `tfscale-train run`."""
    roles: Mapping[str, int]
    hosts: Sequence[int]
    """Host of each task, in the order of the roles."""
    speeds: Mapping[int, float] = field(default_factory=dict)
    """Bits a second of a host's link in each direction; hosts that are not named have no limit."""

    @property
    def tasks(self) -> list[str]:
        return [f"{role}:{index}" for role, index in tasks_of(self.roles)]


@dataclass(frozen=True)
class ShapedRun:
    """Measurement of one training; seconds, and bytes a step. None is unknown."""

    step: float
    """Median time of a step of the leading worker; where workers do not wait for each other, mean of all together."""
    phases: Mapping[str, float]
    """Medians of the leading worker."""
    transfer: float | None
    """Median over the steps of the least `reduce` of all workers: what the network costs each of them."""
    quick_transfer: float | None
    """Time that a twentieth of these are below: nothing else ran on the machine beside them."""
    payload: float | None
    """Bytes that a worker gives to the reduction, as the probe has read them from the graph."""
    sent: Sequence[float]
    """Bytes a step that each host's interface has sent, by its counter."""
    received: Sequence[float]
    moved: Mapping[str, float]
    """Bytes a step that each parameter server has exchanged with all workers, as the chief's probe has counted them."""
    steps: int
    examples: int | None
    """Examples of a step."""
    losses: Sequence[tuple[int, float]]
    """Steps made, and the loss then."""
    gathered: float | None = None
    """Bytes of the payload that are all-gathered instead of summed."""


def shaped_run(setting: Setting) -> ShapedRun:
    """Run a setting from its begin to its end. Raises NotTrained."""
    with tempfile.TemporaryDirectory(prefix="tfscale-study-") as name, net_hosts.hosts(max(setting.hosts) + 1):
        folder = Path(name)
        for host, speed in setting.speeds.items():
            net_hosts.narrow(host, speed)
        (steps := folder / "steps").mkdir()
        with _agents(folder, setting) as agents:
            pids = {host: agents[place].pid for place, host in enumerate(setting.hosts)}
            counters = _Counters(pids)
            with counters.read_on():
                _await_end(folder, setting, agents, files := StepFiles(steps))
        files.follow()
        return _measured(setting, files, counters, folder / "result.json")


@contextlib.contextmanager
def _agents(folder: Path, setting: Setting) -> Iterator[list[subprocess.Popen[bytes]]]:
    cluster = folder / "cluster.toml"
    cluster.write_text(_cluster_file(setting))
    result = ["--json", folder / "result.json"]
    command = [BIN / "tfscale-train", "run", *setting.words, *result]
    variables = SHARED | {"TFSCALE_STEPS": str(folder / "steps")}
    agents: list[subprocess.Popen[bytes]] = []
    try:
        for task, host in zip(setting.tasks, setting.hosts, strict=True):
            role, _, index = task.partition(":")
            with (folder / f"{task}.log").open("wb") as log:
                agent = start_agent(
                    folder,
                    cluster,
                    int(index),
                    command,
                    variables,
                    role=role,
                    before=net_hosts.inside(host),
                    more=["--insecure", "--exit-with-task"],
                    said=log.fileno(),
                    out=log.fileno(),
                )
            agents.append(agent)
        yield agents
    finally:
        for agent in agents:
            agent.terminate()
        for agent in agents:
            agent.wait()


def _cluster_file(setting: Setting) -> str:
    """Return a cluster file in which each task has a port of its own on its host."""
    places = dict(zip(setting.tasks, enumerate(setting.hosts), strict=True))
    at = {task: f"{net_hosts.address(host)}:{PORT + number}" for task, (number, host) in places.items()}
    roles = {role: [at[f"{role}:{index}"] for index in range(count)] for role, count in setting.roles.items()}
    agents = [
        f'"{task}" = "{net_hosts.address(host)}:{AGENT_PORT + number}"' for task, (number, host) in places.items()
    ]
    lines = ["[cluster]", *(f"{role} = {json.dumps(addresses)}" for role, addresses in roles.items())]
    return "\n".join([*lines, "", "[agents]", *agents, ""])


def _await_end(folder: Path, setting: Setting, agents: Sequence[subprocess.Popen[bytes]], files: StepFiles) -> None:
    """Wait until the task that leads has written its result. Raises NotTrained where a task ends before.

    A task that fails after that, as it leaves, takes nothing from what was measured.
    """
    is_first = False
    result = folder / "result.json"
    while not result.exists():
        files.follow()
        if files.most_steps and not is_first:
            is_first = True
            _prefer(set(setting.hosts))
        for task, agent in zip(setting.tasks, agents, strict=True):
            if agent.poll() or (agent.poll() == 0 and agent is agents[0]):
                _await_result(result)
                if not result.exists():
                    said = (folder / f"{task}.log").read_text(errors="replace").strip()
                    raise NotTrained(f"{setting.name}: {task} ended with status {agent.returncode}: {said[-600:]}")
        time.sleep(PAUSE)


def _await_result(path: Path) -> None:
    """Wait a while for the result of the task that leads, which may be about to write it."""
    until = time.monotonic() + LEAVING
    while not path.exists() and time.monotonic() < until:
        time.sleep(PAUSE)


def _prefer(hosts: Iterable[int]) -> None:
    """Let the processes of these hosts run before other work of this machine, which would make them wait.

    Only once they train: imports and compilation take whole cores for long.
    """
    for host in hosts:
        for process in net_hosts.processes(host):
            for thread in Path(f"/proc/{process}/task").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, int(thread.name), PRIORITY)


class _Counters:
    """Bytes that the interface of each host has sent and received, moment by moment."""

    def __init__(self, pids: Mapping[int, int]) -> None:
        self._pids = [pids[host] for host in sorted(pids)]
        self._moments: list[float] = []
        self._rows: list[list[int]] = []
        self._is_over = threading.Event()

    @contextlib.contextmanager
    def read_on(self) -> Iterator[None]:
        """Read them until the block ends."""
        reader = threading.Thread(target=self._read_on)
        reader.start()
        try:
            yield
        finally:
            self._is_over.set()
            reader.join()

    def between(self, begin: float, end: float) -> np.ndarray:
        """Return the bytes of this time: shape (hosts, 2), sent and received."""
        columns = np.array(self._rows, dtype=float).T
        at = [np.interp([begin, end], self._moments, column) for column in columns]
        return np.diff(at, axis=1).reshape(-1, 2)

    def _read_on(self) -> None:
        while not self._is_over.wait(PAUSE):
            with contextlib.suppress(OSError, StopIteration):
                row = [count for pid in self._pids for count in _interface(pid)]
                self._moments.append(time.time())
                self._rows.append(row)


def _interface(pid: int) -> tuple[int, int]:
    """Return the bytes that the interface of a process's host has sent and received."""
    lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()
    words = next(line.split() for line in lines if line.strip().startswith("eth0:"))
    return int(words[9]), int(words[1])


def _measured(setting: Setting, files: StepFiles, counters: _Counters, result: Path) -> ShapedRun:
    ends = {task: column for task, column in files.columns("end").items() if column}
    if not ends:
        raise NotTrained(f"{setting.name}: no step was measured")
    lead = min(ends)
    is_async = "ps" in setting.roles
    every = sorted(end for column in ends.values() for end in column) if is_async else ends[lead]
    kept = settled(every)
    status: Mapping[str, Any] = files.newest("probe") or {}
    reduced = [column for task, column in sorted(files.columns("reduce").items()) if task in ends]
    shortest = settled([min(row) for row in zip(*reduced, strict=False) if None not in row])
    has_transfer = bool(shortest) and len(reduced) > 1 and not is_async
    bytes_moved = counters.between(kept[0], kept[-1]) / (len(kept) - 1)
    times = np.diff(every) if is_async else files.times(lead)
    return ShapedRun(
        step=(kept[-1] - kept[0]) / (len(kept) - 1) if is_async else median(times),
        phases={phase: median(values) for phase in PHASES if (values := _known(files, phase, lead))},
        transfer=median(shortest) if has_transfer else None,
        quick_transfer=quick_step(shortest) if has_transfer else None,
        payload=status.get("reduced_bytes_per_step"),
        sent=bytes_moved[:, 0].tolist(),
        received=bytes_moved[:, 1].tolist(),
        moved=_moved(files, len(every)),
        steps=len(every),
        examples=status.get("examples_per_step"),
        losses=read_result(result).loss,
        gathered=status.get("gathered_bytes_per_step"),
    )


def _known(files: StepFiles, phase: str, task: str) -> list[float]:
    return [value for value in settled(files.columns(phase).get(task, [])) if value is not None]


def _moved(files: StepFiles, steps: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for worker in (files.newest("coordinator") or {}).get("workers", ()):
        for traffic in worker["traffic"]:
            found[traffic["server"]] = found.get(traffic["server"], 0) + traffic["pulled"] + traffic["pushed"]
    return {server: count / steps for server, count in found.items()}
