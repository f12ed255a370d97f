"""Cluster spec: the address of each task and of its agent, the speed of its link, the price of a GPU, recovery.

`file/` reads it from a cluster file or from `TF_CONFIG`.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import itertools
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tfscale.core.cluster.gpu_price import GpuPrice
from tfscale.core.cluster.recovery_policy import RecoveryPolicy
from tfscale.core.cluster.task import DATA_SERVICE, Role, Task
from tfscale.core.errors import UsageError

DEFAULT_AGENT_PORT = 7070


class ClusterError(UsageError):
    """Error in a cluster file or TF_CONFIG; the message says where, and what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a TCP port; IPv6 hosts are kept without their brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def plain(self) -> Address:
        """Address by which it equals others of the same host and port: names have no case, nor a dot at their end."""
        host = self.host
        if ":" in host:
            with contextlib.suppress(ValueError):  # gRPC takes an IPv6 address with its zone, `ipaddress` some of them
                host = ipaddress.ip_address(host).compressed
        host = host.lower().rstrip(".")
        return Address("127.0.0.1" if host == "localhost" else host, self.port)

    @property
    def is_loopback(self) -> bool:
        """True for a host that can only be this machine; `127.example.org` is a name like any other."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


NOWHERE = Address("127.0.0.1", 0)
"""Address of a task that belongs to no cluster."""
ALONE_NAME = "alone"
"""Value of `cluster` in the document of a task without a cluster, and its fingerprint."""
_DIGITS = 8
"""Digits of a fingerprint."""


@dataclass(frozen=True, slots=True)
class ProgramSpec:
    """The program that an agent starts when its command line names none."""

    command: tuple[str, ...] = ()
    directory: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files for mutual TLS between consoles and agents: an authority, and a certificate it signed."""

    ca: Path
    certificate: Path
    key: Path
    has_roles: bool = True
    """False where every certificate of the authority gives every right."""


@dataclass(frozen=True)
class ClusterSpec:
    """All tasks of a cluster; `tasks` is ordered: chief, workers, ps, evaluator, tf.data service.

    What takes a look at all tasks is kept: an agent asks for it once for each of its peers.
    """

    name: str
    """Name of the run in state folders and recordings; by default the stem of the file."""
    tasks: Mapping[Task, Address]
    agents: Mapping[Task, Address]
    link_speeds: Mapping[str, float] = field(default_factory=dict)
    """Bits a second, by task name or `default`; a link that is absent has an unknown speed."""
    program: ProgramSpec = ProgramSpec()
    tls: Tls | None = None
    gpu_price: GpuPrice | None = None
    device_peak: float | None = None
    """FLOP/s that one device makes at most with the program's data types; None: not stated."""
    recovery: RecoveryPolicy | None = None
    """None: no task is started again unasked."""
    spares: Mapping[Address, Address] = field(default_factory=dict)
    """Address at which each spare serves a task, by the address of the spare's agent."""

    @property
    def lead(self) -> Task:
        """The task whose agent issues generations: the chief, else worker 0, else the first."""
        return next(iter(self.tasks))

    @cached_property
    def is_alone(self) -> bool:
        """True for a single task outside of any cluster: tfscale leaves its program's TF_CONFIG alone."""
        return NOWHERE in self.tasks.values()

    @cached_property
    def fingerprint(self) -> str:
        """8 hexadecimal digits that are the same for two specs whose tasks have the same addresses, or `alone`.

        Evaluators and a tf.data service do not count, since a TF_CONFIG names them to themselves alone; nor do
        addresses of agents, which a console may reach through a tunnel, nor the host on which a task sits now.
        """
        if self.is_alone:
            return ALONE_NAME
        training = [task for task in self.tasks if task.role is not Role.EVALUATOR and task.role not in DATA_SERVICE]
        tasks = [f"{task}={self.tasks[task]}" for task in sorted(training or self.tasks)]
        return hashlib.sha256("\n".join(tasks).encode()).hexdigest()[:_DIGITS]

    @property
    def data_service(self) -> Address | None:
        """Address of the dispatcher of the tf.data service, None where there is none."""
        return self.tasks.get(Task(Role.DISPATCHER, 0))

    def link_speed(self, task: Task) -> float | None:
        """Return the speed of a task's link in bits a second, None where the file has none."""
        return self.link_speeds.get(str(task), self.link_speeds.get("default"))

    def to_json(self) -> str:
        """Return the JSON form of the spec's file, without program, TLS and recovery: they concern agents alone."""
        document: dict[str, Any] = {
            "name": self.name,
            "cluster": ALONE_NAME if self.is_alone else self._addresses(),
            "agents": {str(task): str(address) for task, address in self.agents.items()},
            "links": {name: f"{speed:.0f}bit/s" for name, speed in self.link_speeds.items()},
        }
        if self.gpu_price is not None:
            document["cost"] = self.gpu_price.document()
        if self.device_peak is not None:
            document["devices"] = {"peak_tflops": self.device_peak / 1e12}
        if self.spares:
            agents, tasks = [str(agent) for agent in self.spares], [str(task) for task in self.spares.values()]
            document["spares"] = {"agents": agents, "tasks": tasks}
        return json.dumps(document)

    def _addresses(self) -> dict[str, list[str]]:
        by_role: dict[str, list[str]] = {}
        for task, address in self.tasks.items():
            by_role.setdefault(task.role, []).append(str(address))
        return by_role


def free_address(host: str, first: int, taken: Collection[Address]) -> Address:
    """Return the address of a host with the first port from `first` on; `taken` are other addresses, as `plain`."""
    return next(address for port in itertools.count(first) if (address := Address(host, port)).plain not in taken)


def parse_address(value: object, where: str = "address") -> Address:
    """Return the Address of the text `host:port` or `[v6]:port`. Raises UsageError that begins with `where`."""
    if not isinstance(value, str) or (match := re.fullmatch(r"(\[[^\]]+\]|[^:\s\[\]]+):(\S*)", value)) is None:
        raise UsageError(f"{where}: {value!r} is not host:port")
    if not match[2].isdecimal() or not 1 <= int(match[2]) <= 65535:
        raise UsageError(f"{where}: port {match[2]!r} of {value!r} is not a number from 1 to 65535")
    return Address(match[1].strip("[]"), int(match[2]))
