"""Records of an agent's examination before a start: its host, and the tasks that it can reach."""

from __future__ import annotations

from dataclasses import dataclass

MOST_TASKS = 128
"""Largest number of tasks that one agent tries to reach at one request."""


@dataclass(frozen=True, slots=True)
class FolderSpace:
    """Space on the disk of a folder; sizes are bytes."""

    purpose: str
    """`working folder` or `state folder`."""
    path: str
    free: int
    total: int
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ResolvedName:
    """Name of a host of the cluster, as another host resolves it."""

    name: str
    addresses: tuple[str, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Program:
    """Program of a task, as its command would run it; an empty version is absent or unknown."""

    interpreter: str = ""
    python: str = ""
    tensorflow: str = ""
    keras: str = ""
    script: str = ""
    script_hash: str = ""
    """SHA-256, hexadecimal."""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Examination:
    """Facts of a task's host."""

    task_lives: bool
    port: int
    """Port on which the agent listens for the moment, 0 for none."""
    port_problem: str
    """Reason why the port of an ended task could not be served, as in `taken by process 12 (...)`."""
    disks: tuple[FolderSpace, ...]
    memory_available: int
    """Bytes."""
    memory_total: int
    names: tuple[ResolvedName, ...]
    program: Program
    gpus: int
    """GPUs that NVML tells."""
    gpus_seen: int | None = None
    """GPUs that TensorFlow sees, as the probe has reported."""
    visible_devices: str | None = None
    """CUDA_VISIBLE_DEVICES of the task."""
    strategy: str | None = None
    """Strategy of the program, as the probe has reported."""


@dataclass(frozen=True, slots=True)
class Contact:
    """Attempt to connect to a task, or to its agent."""

    task: str
    is_agent: bool
    address: str
    problem: str = ""
    """Reason why the target was not reached."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes that reached another host over one connection."""

    bytes: int
    seconds: float
    problem: str = ""
