"""Steps in columns, and the functions that a coordinator has handed out."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from tfscale.core.records.schema import Time

PHASES = ("update", "host", "input", "compute", "reduce")
"""The five parts of a step, in the order of time."""
LAG_PHASES = PHASES[:-1]
"""Phases in which a worker waits for no other, between leaving one all-reduce and entering the next."""


def _floats() -> array[float]:
    return array("f")


@dataclass(frozen=True, slots=True)
class StepBatch:
    """Steps of one subject as columns of equal length; an empty column is unknown in every row.

    Row i is the step that ends when gradient collective `sequence[i]` is left, at `end[i]`. Its phases, and the
    activities between, add up to the time since the collective before was left. The subject is a task, or one of its
    replicas (`worker:1/replica:0`) or stages (`worker:1/stage:0`); a task's row lasts until its slowest replica is
    done.
    """

    generation: int
    attempt: int
    reporter: str
    subject: str
    sequence: Sequence[int]
    end: Sequence[float]
    global_step: Sequence[int] = ()
    update: Sequence[float] = field(default_factory=_floats)
    host: Sequence[float] = field(default_factory=_floats)
    input: Sequence[float] = field(default_factory=_floats)
    compute: Sequence[float] = field(default_factory=_floats)
    reduce: Sequence[float] = field(default_factory=_floats)
    lost: int = 0
    """Steps before this batch that could not be kept."""
    clamped: int = 0
    """Rows whose edges overlapped."""
    pull: Sequence[float] = field(default_factory=_floats)
    """Part of `compute` in which the worker waited for variables of parameter servers."""
    part: int = 0
    """Process of the attempt that measured the steps: milliseconds from the host's boot to the process's start.

    Each process numbers its steps from 0, and a later process has a larger part.
    """


@dataclass(frozen=True, slots=True)
class ServerTraffic:
    """Bytes that one worker's functions have fetched from a server, and sent to it: elements x size of the dtype."""

    server: str
    pulled: int
    pushed: int


@dataclass(frozen=True, slots=True)
class WorkerFunctions:
    """Functions that one worker has executed since the start of the chief's attempt."""

    worker: str
    finished: int
    failed: int
    """Number of functions that ended in an error; a dead worker's functions are executed again."""
    busy: float
    """Seconds in the finished functions, from the chief's call to the worker's answer."""
    idle: float
    """Seconds without a function."""
    since: Time | None = None
    """Time of the chief's oldest unanswered question; None while all are answered."""
    traffic: tuple[ServerTraffic, ...] = ()


@dataclass(frozen=True, slots=True)
class Coordinator:
    """State of the chief under ParameterServerStrategy, which gives functions to workers and measures them."""

    at: Time
    queued: int | None
    """Functions that wait for a worker."""
    waited: float
    """Seconds that the program has waited for functions (`join`, `fetch`)."""
    waiting_since: Time | None = None
    workers: tuple[WorkerFunctions, ...] = ()
