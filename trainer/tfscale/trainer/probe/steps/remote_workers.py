"""Accounts of the workers of ParameterServerStrategy, in their chief: pure Python, no TensorFlow.

Each worker has a thread in the chief, which alone writes the worker's account; the probe's thread reads it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tfscale.core.records.step_batch import Coordinator, ServerTraffic, WorkerFunctions
from tfscale.trainer.probe.rows.spans import Distribution, Kind, Span
from tfscale.trainer.probe.steps.step import Step
from tfscale.trainer.probe.steps.worker_steps import Call, WorkerSteps

_POLL_SECONDS = 0.02
"""Pause between two checks whether all workers have been read."""
_KEPT = 240
"""Most reads of one worker that are kept for the probe's thread: two minutes at two reads a second. The thread reads
every second, so the limit matters only while it hangs; without it memory would fill."""


class Traffic(NamedTuple):
    """Bytes that a graph fetches from each server, and sends to it, in each run.

    A size that is known only in the run is 1 here, per byte that the run reports.
    """

    pulled: Mapping[str, int]
    pushed: Mapping[str, int]


class Measured(NamedTuple):
    """Steps of one worker; `pulls` are the seconds in which each step's compute waited for variables."""

    worker: str
    steps: Sequence[Step]
    pulls: list[float]
    lost: int


@dataclass
class WorkerAccount:
    """Account of one worker. `worker` is TensorFlow's own object, known from the worker's first function on."""

    name: str
    worker: Any = None
    finished: int = 0
    failed: int = 0
    busy: float = 0.0
    idle: float = 0.0
    since: float | None = None
    idle_since: float | None = None
    _calls: list[Call] = field(default_factory=list)
    _read_at: float = 0.0
    fresh: deque[tuple[list[Span], list[Call], int]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    """Spans and calls of one read, and the number of lost spans before them."""

    @property
    def unread(self) -> bool:
        """True if functions were executed since the worker was read."""
        return bool(self._calls)

    def is_due(self, period: float) -> bool:
        return self.unread and time.monotonic() - self._read_at >= period

    @contextmanager
    def executing(self, counted: bool) -> Iterator[None]:
        """Account for the function executed in this block; a function that makes a data set is not `counted`."""
        begin = self.since = time.time()
        try:
            yield
        except BaseException:
            self.failed += counted
            self._calls.append(Call(begin, time.time(), failed=True))
            raise
        else:
            if counted:
                end = time.time()
                self.finished += 1
                self.busy += end - begin
                self._calls.append(Call(begin, end))
        finally:
            self.since = None

    @contextmanager
    def idling(self) -> Iterator[None]:
        """Count the time of the block as waiting for a function."""
        begin = self.idle_since = time.time()
        try:
            yield
        finally:
            self.idle_since = None
            self.idle += time.time() - begin

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Mark the block as a request to the worker for its records."""
        self.since = time.time()
        try:
            yield
        finally:
            self.since = None

    def collected(self, spans: list[Span], lost: int) -> None:
        """Keep the worker's records of its functions since the last call."""
        self._read_at = time.monotonic()
        self.fresh.append((spans, self._calls, lost))
        # Last: who waits until nothing is unread drains these records next, at the end for the last time.
        self._calls = []


class Workers:
    """Workers of a chief; none before it has made its strategy."""

    def __init__(self) -> None:
        self.traffic: dict[int, Traffic] = {}
        """Traffic by the number of its site."""
        self.queue: Any = None
        """TensorFlow's queue of functions that wait for a worker."""
        self._accounts: list[WorkerAccount] = []
        self._steps: dict[str, WorkerSteps] = {}
        self._bytes: dict[str, tuple[Counter[str], Counter[str]]] = {}
        self._waited = 0.0
        self._waiting: dict[int, float] = {}
        """Unix seconds since which a thread waits, by thread."""

    def __bool__(self) -> bool:
        return bool(self._accounts)

    def begin(self, count: int, distribution: Distribution) -> None:
        """Begin to account for this number of workers of a program."""
        self._accounts = [WorkerAccount(f"worker:{index}") for index in range(count)]
        self._steps = {account.name: WorkerSteps(distribution) for account in self._accounts}
        self._bytes = {account.name: (Counter(), Counter()) for account in self._accounts}

    def account(self, index: int | None) -> WorkerAccount | None:
        """Return the account of the worker with this index, None where there is none."""
        return self._accounts[index] if index is not None and index < len(self._accounts) else None

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time of the block as waiting for functions to finish."""
        thread = threading.get_ident()
        if thread in self._waiting:
            yield
            return
        begin = self._waiting[thread] = time.time()
        try:
            yield
        finally:
            del self._waiting[thread]
            self._waited += time.time() - begin

    def settle(self, patience: float) -> None:
        """Wait until the workers' threads have read all records, which they do between two functions."""
        until = time.monotonic() + patience
        while time.monotonic() < until and any(account.unread for account in self._accounts):
            time.sleep(_POLL_SECONDS)

    def drain(self) -> list[Measured]:
        """Return the steps since the last call."""
        return [measured for account in self._accounts if (measured := self._measured(account)).steps or measured.lost]

    def coordinator(self) -> Coordinator | None:
        """Return the state of the coordinator, None where there is none."""
        if not self._accounts:
            return None
        now = time.time()
        since = min(self._waiting.values(), default=None)
        return Coordinator(
            at=now,
            queued=None if self.queue is None else self.queue._queue.qsize(),
            waited=self._waited + (0.0 if since is None else now - since),
            waiting_since=since,
            workers=tuple(self._functions(account, now) for account in self._accounts),
        )

    def _measured(self, account: WorkerAccount) -> Measured:
        steps: list[Step] = []
        pulls: list[float] = []
        lost = 0
        while account.fresh:
            spans, calls, missed = account.fresh.popleft()
            lost += missed
            self._count_bytes(account.name, spans)
            for step, pull in self._steps[account.name].feed(spans, calls):
                steps.append(step)
                pulls.append(pull)
        return Measured(account.name, steps, pulls, lost)

    def _count_bytes(self, worker: str, spans: list[Span]) -> None:
        pulled, pushed = self._bytes[worker]
        for span in spans:
            if (traffic := self.traffic.get(span.site.number)) is not None:
                times = 1.0 if span.site.kind is Kind.EXCHANGE else span.amount
                pulled.update({server: round(size * times) for server, size in traffic.pulled.items()})
                pushed.update({server: round(size * times) for server, size in traffic.pushed.items()})

    def _functions(self, account: WorkerAccount, now: float) -> WorkerFunctions:
        pulled, pushed = self._bytes[account.name]
        since = account.idle_since
        return WorkerFunctions(
            worker=account.name,
            finished=account.finished,
            failed=account.failed,
            busy=account.busy,
            idle=account.idle + (0.0 if since is None else now - since),
            since=account.since,
            traffic=tuple(
                ServerTraffic(server, pulled[server], pushed[server]) for server in sorted({*pulled, *pushed})
            ),
        )
