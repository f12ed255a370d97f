"""Settings of the input from outside: prefetching, parallel maps, and sharding over workers.

They reach the data set that `fit` trains with, each one that the script distributes, and each one that its own loop
goes through outside of graphs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tfscale.trainer.probe.outside.defaults import caller, is_of_script, overrule, take

AUTO, OFF = "auto", "off"
NAMES = ("prefetch", "map", "auto_shard")
_SAME_BATCHES = ("Options", "Repeat", "Take", "Skip")
"""Begins of the classes of data sets that hand on the batches of another one: its prefetching is theirs."""


class InputSettings:
    """Settings that were asked for; none of them may be."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        self._wanted = wanted
        self._tensorflow: Any = None
        self._fits = 0
        """Calls of `fit` whose data set has not been seen yet."""

    def put(self, tensorflow: Any) -> None:
        """Put the settings into `tf.data` and `tf.distribute`."""
        self._tensorflow = tensorflow
        strategy, data = tensorflow.distribute.Strategy, tensorflow.data.Dataset
        if "map" in self._wanted:
            data.map = self._map(data.map)
        if "prefetch" in self._wanted:
            data.__iter__ = self._iterated(data.__iter__)
            strategy.distribute_datasets_from_function = self._from_function(strategy.distribute_datasets_from_function)
        if {"prefetch", "auto_shard"} & self._wanted.keys():
            strategy.experimental_distribute_dataset = self._distributed(strategy.experimental_distribute_dataset)

    def put_in_keras(self, keras: Any) -> None:
        """Notice in `fit` that its first data set is one of training; those after it are for validation."""
        if not {"prefetch", "auto_shard"} & self._wanted.keys():
            return
        method = keras.Model.fit

        @functools.wraps(method)
        def fit(*args: Any, **kwargs: Any) -> Any:
            self._fits += 1
            try:
                return method(*args, **kwargs)
            finally:
                self._fits = max(0, self._fits - 1)

        keras.Model.fit = fit

    def _map(self, method: Callable[..., Any]) -> Callable[..., Any]:
        calls = self._wanted["map"]
        number = self._tensorflow.data.AUTOTUNE if calls == AUTO else calls

        @functools.wraps(method)
        def called(data: Any, map_func: Any, num_parallel_calls: Any = None, *args: Any, **kwargs: Any) -> Any:
            if num_parallel_calls is None and is_of_script(caller()):
                take("map")
                num_parallel_calls = number
            return method(data, map_func, num_parallel_calls, *args, **kwargs)

        return called

    def _iterated(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def called(data: Any) -> Any:
            # A single batch is looked at, for example to build a model.
            if is_of_script(caller()) and int(data.cardinality()) != 1:
                data = self._prefetched(data)
            return method(data)

        return called

    def _from_function(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def called(strategy: Any, dataset_fn: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._is_training(caller()):
                return method(strategy, dataset_fn, *args, **kwargs)
            return method(strategy, lambda context: self._prefetched(dataset_fn(context)), *args, **kwargs)

        return called

    def _distributed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def called(strategy: Any, dataset: Any, *args: Any, **kwargs: Any) -> Any:
            if self._is_training(caller()) and isinstance(dataset, self._tensorflow.data.Dataset):
                dataset = self._sharded(self._prefetched(dataset), strategy)
            return method(strategy, dataset, *args, **kwargs)

        return called

    def _is_training(self, module: str) -> bool:
        """Decide whether a data set that is distributed now is one of training; of a `fit` it is the first."""
        if self._fits:
            self._fits -= 1
            return True
        return is_of_script(module)

    def _prefetched(self, data: Any) -> Any:
        wanted = self._wanted.get("prefetch")
        if wanted is None:
            return data
        if _prefetches(data):
            overrule("prefetch")
            return data
        take("prefetch")
        if wanted != OFF:
            return data.prefetch(self._tensorflow.data.AUTOTUNE if wanted == AUTO else wanted)
        # TensorFlow itself adds one to a pipeline without: see `inject_prefetch` of tf.data's options.
        options = self._tensorflow.data.Options()
        options.autotune.enabled = True
        options.experimental_optimization.inject_prefetch = False
        return data.with_options(options)

    def _sharded(self, data: Any, strategy: Any) -> Any:
        wanted = self._wanted.get("auto_shard")
        distribute, policies = self._tensorflow.distribute, self._tensorflow.data.experimental.AutoShardPolicy
        if wanted is None or not isinstance(strategy, distribute.MultiWorkerMirroredStrategy) or _workers(strategy) < 2:
            return data
        if data.options().experimental_distribute.auto_shard_policy != policies.AUTO:
            overrule("auto_shard")
            return data
        take("auto_shard")
        options = self._tensorflow.data.Options()
        options.experimental_distribute.auto_shard_policy = policies[wanted.upper()]
        return data.with_options(options)


def _prefetches(data: Any) -> bool:
    """Decide whether the last thing that is done to the batches of a data set is their prefetching."""
    kind = type(data).__name__.lstrip("_")
    return kind.startswith("Prefetch") or (
        kind.startswith(_SAME_BATCHES) and any(_prefetches(each) for each in data._inputs())
    )


def _workers(strategy: Any) -> int:
    """Return the number of workers among which a data set is divided."""
    spec = strategy.cluster_resolver.cluster_spec().as_dict()
    return sum(len(spec.get(role, ())) for role in ("chief", "worker"))
