"""Where TensorFlow is touched: the methods through which every distributed step passes.

    Strategy.run                      the replica function, and with it the updates of variables
    DistributedIterator.get_next ...  the next batch
    Extended._batch_reduce_to         gradients, under both Keras versions and in custom loops
    Extended._reduce_to               metrics, losses, and the count of replicas that still have data

Under `fit` Python passes through these once a trace, so they leave stamps in the graph; in eager loops it passes at
each step, and they take the time themselves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tensorflow.python.distribute import (
    collective_all_reduce_strategy,
    distribute_lib,
    input_lib,
    mirrored_strategy,
)
from tfscale.trainer.probe.recorder import Recorder
from tfscale.trainer.probe.spans import Kind

Method = Callable[..., Any]


def install(recorder: Recorder, on_strategy: Callable[[Any], None]) -> None:
    """Put the hooks in place; must happen before the first graph is traced.

    `on_strategy` is called with each strategy that the script has made.
    """

    def made(method: Method, strategy: Any, *args: Any, **kwargs: Any) -> None:
        method(strategy, *args, **kwargs)
        if not isinstance(strategy, distribute_lib._DefaultDistributionStrategy):
            with recorder.own_work():
                on_strategy(strategy)

    def run(method: Method, strategy: Any, *args: Any, **kwargs: Any) -> Any:
        return recorder.record(Kind.RUN, lambda: method(strategy, *args, **kwargs))

    def get_next(method: Method, iterator: Any, *args: Any, **kwargs: Any) -> Any:
        return recorder.record(Kind.INPUT, lambda: method(iterator, *args, **kwargs))

    def batch_reduce(method: Method, extended: Any, op: Any, pairs: Any, options: Any) -> Any:
        return recorder.record(Kind.REDUCE, lambda: method(extended, op, pairs, options), [pair[0] for pair in pairs])

    def reduce(method: Method, extended: Any, op: Any, value: Any, destinations: Any, options: Any) -> Any:
        def call() -> Any:
            return method(extended, op, value, destinations, options)

        return recorder.record(Kind.REDUCE, call, value) if extended._num_replicas_in_sync > 1 else call()

    mirrored = mirrored_strategy.MirroredExtended
    multi_worker = collective_all_reduce_strategy.CollectiveAllReduceExtended
    _wrap(distribute_lib.StrategyBase, "__init__", made)
    _wrap(distribute_lib.StrategyBase, "run", run)
    _wrap(input_lib.DistributedIteratorBase, "get_next", get_next)
    _wrap(input_lib.DistributedIteratorBase, "get_next_as_optional", get_next)
    _wrap(mirrored, "_batch_reduce_to", batch_reduce)
    _wrap(mirrored, "_reduce_to", reduce)
    _wrap(multi_worker, "_reduce_to", reduce)


def _wrap(owner: type, name: str, hook: Method) -> None:
    method = getattr(owner, name)

    @functools.wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        return hook(method, self, *args, **kwargs)

    setattr(owner, name, wrapper)
