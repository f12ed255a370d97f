"""Hooks for ParameterServerStrategy: all in the chief, except the hook by which a worker or server reports itself.

    Closure.execute_on                 executes a function on a worker, synchronously in a thread of the chief
    _CoordinatedClosureQueue.get       waits in the worker's thread for the next function
    ClusterCoordinator.join, fetch     wait in the program for functions
    Server.__init__                    makes this process a worker or a server

Steps are recorded by the same stamps as everywhere, kept on the worker (`rows/remote_row_buffer.py`). The worker's
thread in the chief reads them between two functions: nothing runs on the worker then, and a worker that hangs delays no
other.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tfscale.core.cluster.strategy import ASYNCHRONOUS, find_strategy
from tfscale.trainer import tf_internals
from tfscale.trainer.probe.graph.distribution import distribution_of
from tfscale.trainer.probe.graph.exchange import Exchange, arrived, exchange_of, sizes
from tfscale.trainer.probe.graph.recorder import Recorder
from tfscale.trainer.probe.graph.structures import is_looped, other_bytes
from tfscale.trainer.probe.hooks.patches import Method, Patches
from tfscale.trainer.probe.rows.remote_row_buffer import RemoteRowBuffer
from tfscale.trainer.probe.rows.row_layout import NO_ROWS
from tfscale.trainer.probe.rows.spans import Distribution, Kind
from tfscale.trainer.probe.steps.remote_workers import Traffic, WorkerAccount, Workers

_PERIOD = 0.5
"""Seconds between two reads of a worker's staged rows: two for each report, so that a report misses no second. Each
read costs a call over the network, between two functions."""


class ParameterServer:
    """Measurement of a chief's workers, from the making of the strategy on."""

    def __init__(self, recorder: Recorder, on_server: Callable[[], None]) -> None:
        self._recorder = recorder
        self._on_server = on_server
        self.workers = Workers()
        self._buffer: RemoteRowBuffer | None = None
        self._emptied: dict[int, float] = {}
        """Time at which a worker's staged rows were last thrown away, by the worker's index."""
        self._executions = Patches(on_fault=lambda _: None)
        """The hooks that go on emptying workers after the probe has given up."""
        self._measures_workers = False

    def install(self, patches: Patches) -> None:
        """Put the hooks in place."""
        self._recorder.graphs.before_writing.append(self._stamp_exchange)
        self._hook_workers(patches)
        self._hook_waits(patches)
        self._hook_servers(patches)

    def strategy_made(self, strategy: Any) -> None:
        """Have stamps kept on the workers of this strategy, if it is asynchronous."""
        row = find_strategy([distribution_of(strategy).strategy or ""])
        if self._measures_workers and row is not None and row.family is ASYNCHRONOUS and self._buffer is None:
            self._buffer = RemoteRowBuffer(strategy.extended._num_gpus_per_worker)
            self._recorder.graphs.keep_on_workers(self._buffer)
            self.workers.begin(strategy.extended._num_workers, distribution_of(strategy))

    def settle(self) -> None:
        """Wait a moment for the rows of the workers."""
        self.workers.settle(6 * _PERIOD)

    def stop(self) -> None:
        """Measure no more. Workers that may run graphs with stamps are still emptied: their rows would fill memory."""
        self.workers.begin(0, Distribution())
        if self._buffer is None:
            self._executions.undo()

    def _stamp_exchange(self, graph: Any) -> None:
        if not self.workers:
            return
        recorder = self._recorder
        buffer = recorder.graphs.stampable_buffer
        if buffer is None or not (exchange := exchange_of(graph)):
            return
        begun = buffer.stamp([])
        site = recorder.sites.traced(Kind.EXCHANGE, looped=is_looped(graph))
        recorder.graphs.write_later(site, begun, buffer.stamp(arrived(exchange.first)) if exchange.first else begun)
        self.workers.traffic[site.number] = Traffic(sizes(exchange.pulled), sizes(exchange.pushed))
        self._stamp_other_bytes(exchange, begun)

    def _stamp_other_bytes(self, exchange: Exchange, begun: tf.Tensor) -> None:
        """Stamp the numbers of bytes that only the run knows, such as those of the rows of an embedding."""
        for tensors, pulls in ((exchange.pulled, True), (exchange.pushed, False)):
            for server, moved in tensors.items():
                if amount := other_bytes(moved):
                    site = self._recorder.sites.traced(Kind.TRAFFIC)
                    self._recorder.graphs.write_later(site, begun, begun, *amount)
                    one_byte = {server: 1}
                    self.workers.traffic[site.number] = Traffic(one_byte, {}) if pulls else Traffic({}, one_byte)

    def _hook_workers(self, patches: Patches) -> None:
        def execute_on(method: Method, closure: Any, worker: Any) -> Any:
            account = self.workers.account(worker.worker_index)
            if account is None:
                method(closure, worker)
                return self._empty(worker)
            account.worker = worker
            with account.executing(counted=not isinstance(closure, tf_internals.ResourceClosure)):
                method(closure, worker)
            if account.is_due(_PERIOD):
                self._collect(account)
            return None

        def get(method: Method, queue: Any, timeout: float | None = None, tag: int | None = None) -> Any:
            account = self.workers.account(tag)
            if account is None or timeout is not None:
                return method(queue, timeout, tag)
            self.workers.queue = queue
            with account.idling():
                return self._next(method, queue, account, tag)

        coordinator = tf_internals.COORDINATOR
        self._measures_workers = patches.put(coordinator, {"_CoordinatedClosureQueue.get": get})
        if self._measures_workers:
            self._executions.put(coordinator, {"Closure.execute_on": execute_on})

    def _next(self, method: Method, queue: Any, account: WorkerAccount, tag: int | None) -> Any:
        """Return the worker's next function; the rows of the worker are read before a longer wait."""
        if account.unread:
            closure = method(queue, _PERIOD, tag)
            if closure is not None:
                return closure
            # None comes after the period, and also when the coordinator is stopped.
            self._collect(account)
        return method(queue, None, tag)

    def _collect(self, account: WorkerAccount) -> None:
        with self._recorder.switch.own_work(), account.answering():
            rows, lost = self._read(account.worker)
            account.collected(self._recorder.graphs.table_of(rows).spans(self._recorder.sites.all), lost)

    def _read(self, worker: Any) -> tuple[np.ndarray, int]:
        """Return the rows that a worker has staged since its last read, and how many rows were lost."""
        try:
            with tf.device(worker.device_name), tf_internals.context.executor_scope(worker.executor):
                return self._buffer.read_worker() if self._buffer is not None else (NO_ROWS, 0)
        except tf.errors.OpError:
            # The worker has just died, which the next function will notice.
            return NO_ROWS, 0

    def _empty(self, worker: Any) -> None:
        """Throw away the rows that graphs with stamps still stage after the end of measuring."""
        now = time.monotonic()
        if self._buffer is not None and now - self._emptied.get(worker.worker_index, -math.inf) >= _PERIOD:
            self._emptied[worker.worker_index] = now
            with self._recorder.switch.own_work():
                self._read(worker)

    def _hook_waits(self, patches: Patches) -> None:
        def wait(method: Method, *args: Any, **kwargs: Any) -> Any:
            with self.workers.waiting():
                return method(*args, **kwargs)

        patches.put(tf_internals.WAITS, {"ClusterCoordinator.join": wait, "RemoteValueImpl.fetch": wait})

    def _hook_servers(self, patches: Patches) -> None:
        def made(method: Method, server: Any, *args: Any, **kwargs: Any) -> None:
            method(server, *args, **kwargs)
            with self._recorder.switch.own_work():
                self._on_server()

        patches.put(tf_internals.SERVERS, {"Server.__init__": made})
