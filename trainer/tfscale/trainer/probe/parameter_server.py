"""Where ParameterServerStrategy is touched. All of it is in the chief; the others only say that they are there.

    func_graph_from_py_func            what a function fetches and sends, and when it has got it, in its graph
    Closure.execute_on                 a function is executed on a worker, synchronously in a thread of the chief
    _CoordinatedClosureQueue.get       the worker's thread waits for a function
    ClusterCoordinator.join, fetch     the program waits for functions
    Server.__init__                    this process is a worker or a server

Steps are recorded by the same stamps as everywhere, staged on the worker (`worker_staging.py`). The worker's thread in
the chief reads it between two functions: nothing runs on the worker then, and one that hangs holds up nobody else.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute import parameter_server_strategy_v2
from tensorflow.python.distribute.coordinator import cluster_coordinator, values
from tensorflow.python.eager import context
from tensorflow.python.framework import func_graph, ops
from tensorflow.python.training import server_lib
from tfscale.trainer.probe.exchange import Exchange, arrived, exchange_of, sizes
from tfscale.trainer.probe.graph import is_looped, other_bytes
from tfscale.trainer.probe.hooks import Method, wrap
from tfscale.trainer.probe.program import program_of
from tfscale.trainer.probe.recorder import Recorder
from tfscale.trainer.probe.row import NO_ROWS
from tfscale.trainer.probe.spans import Kind, Program
from tfscale.trainer.probe.worker_staging import RemoteRowBuffer
from tfscale.trainer.probe.workers import Account, Traffic, Workers

_PERIOD = 0.5
"""Seconds between two looks at what a worker has staged."""


class ParameterServer:
    """Measures the workers of a chief, from the moment when it makes the strategy."""

    def __init__(self, recorder: Recorder, on_server: Callable[[], None]) -> None:
        self._recorder = recorder
        self._on_server = on_server
        self.workers = Workers()
        self._staging: RemoteRowBuffer | None = None
        self._forgot: dict[int, float] = {}
        """By worker: when what it had staged was last thrown away."""

    def install(self) -> None:
        """Put the hooks in place."""
        self._hook_tracing()
        self._hook_workers()
        self._hook_waits()
        self._hook_servers()

    def strategy_made(self, strategy: Any) -> None:
        """Have stamps written on the workers of this strategy, if it has any."""
        is_asynchronous = isinstance(strategy, parameter_server_strategy_v2.ParameterServerStrategyV2)
        if is_asynchronous and self._staging is None:
            self._staging = self._recorder.staging = RemoteRowBuffer(strategy.extended._num_gpus_per_worker)
            self.workers.begin(strategy.extended._num_workers, program_of(strategy))

    def settle(self) -> None:
        """Wait a moment for what workers have recorded."""
        self.workers.settle(6 * _PERIOD)

    def stop(self) -> None:
        """Let everything pass from now on."""
        self.workers.begin(0, Program())

    def _hook_tracing(self) -> None:
        def build(method: Method, name: str, python_func: Method, *args: Any, **kwargs: Any) -> Any:
            def traced(*inputs: Any, **more: Any) -> Any:
                outputs = python_func(*inputs, **more)
                if self.workers:
                    with self._recorder.own_work():
                        self._stamp_exchange(ops.get_default_graph())
                return outputs

            return method(name, functools.wraps(python_func)(traced), *args, **kwargs)

        wrap(func_graph, "func_graph_from_py_func", build)

    def _stamp_exchange(self, graph: Any) -> None:
        recorder = self._recorder
        staging = recorder.graph_staging
        if staging is None or not (exchange := exchange_of(graph)):
            return
        begun = staging.stamp([])
        site = recorder.sites.traced(Kind.EXCHANGE, looped=is_looped(graph))
        recorder.add(site, begun, staging.stamp(arrived(exchange.first)) if exchange.first else begun)
        self.workers.traffic[site.number] = Traffic(sizes(exchange.pulled), sizes(exchange.pushed))
        self._stamp_other_bytes(exchange, begun)

    def _stamp_other_bytes(self, exchange: Exchange, begun: tf.Tensor) -> None:
        """What only the run knows: of the rows that an embedding uses, for example."""
        for tensors, pulls in ((exchange.pulled, True), (exchange.pushed, False)):
            for server, found in tensors.items():
                if amount := other_bytes(found):
                    site = self._recorder.sites.traced(Kind.TRAFFIC)
                    self._recorder.add(site, begun, begun, *amount)
                    each = {server: 1}
                    self.workers.traffic[site.number] = Traffic(each, {}) if pulls else Traffic({}, each)

    def _hook_workers(self) -> None:
        def execute_on(method: Method, closure: Any, worker: Any) -> Any:
            account = self.workers.account(worker.worker_index)
            if account is None:
                method(closure, worker)
                return self._forget(worker)
            account.worker = worker
            with account.executing(counted=not isinstance(closure, cluster_coordinator.ResourceClosure)):
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

        wrap(cluster_coordinator.Closure, "execute_on", execute_on)
        wrap(cluster_coordinator._CoordinatedClosureQueue, "get", get)

    def _next(self, method: Method, queue: Any, account: Account, tag: int | None) -> Any:
        """The worker's next function. What it has recorded is read before a longer wait."""
        if account.unread:
            closure = method(queue, _PERIOD, tag)
            if closure is not None:
                return closure
            # None comes after the period, and also when the coordinator is stopped.
            self._collect(account)
        return method(queue, None, tag)

    def _collect(self, account: Account) -> None:
        with self._recorder.own_work(), account.answering():
            rows, lost = self._read(account.worker)
            account.collected(self._recorder.table_of(rows).spans(self._recorder.sites.all), lost)

    def _read(self, worker: Any) -> tuple[np.ndarray, int]:
        """What a worker has staged since it was read last, and how many rows were too many."""
        try:
            with ops.device(worker.device_name), context.executor_scope(worker.executor):
                return self._staging.read_worker() if self._staging is not None else (NO_ROWS, 0)
        except tf.errors.OpError:
            # The worker has just died, which the next function will find out.
            return NO_ROWS, 0

    def _forget(self, worker: Any) -> None:
        """Nobody measures any more; what graphs with stamps in them still stage must not fill the worker's memory."""
        now = time.monotonic()
        if self._staging is not None and now - self._forgot.get(worker.worker_index, -math.inf) >= _PERIOD:
            self._forgot[worker.worker_index] = now
            with self._recorder.own_work():
                self._read(worker)

    def _hook_waits(self) -> None:
        def wait(method: Method, *args: Any, **kwargs: Any) -> Any:
            with self.workers.waiting():
                return method(*args, **kwargs)

        wrap(cluster_coordinator.ClusterCoordinator, "join", wait)
        wrap(values.RemoteValueImpl, "fetch", wait)

    def _hook_servers(self) -> None:
        def made(method: Method, server: Any, *args: Any, **kwargs: Any) -> None:
            method(server, *args, **kwargs)
            with self._recorder.own_work():
                self._on_server()

        wrap(server_lib.Server, "__init__", made)
