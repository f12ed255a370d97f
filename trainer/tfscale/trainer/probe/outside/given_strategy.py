"""Strategy from outside, for a script that calls none: its models, trained by `fit`, are made under this one.

The batch stays the one that the script writes, of all replicas together: TensorFlow divides it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tfscale.core.cluster.strategy import DEFAULT, find_strategy
from tfscale.trainer.probe.outside.defaults import overrule, take

NAME = "strategy"
MIRRORED, MULTI_WORKER = "mirrored", "multi-worker"


class GivenStrategy:
    """One strategy, made where TensorFlow needs it; none where no kind is asked for."""

    def __init__(self, kind: str | None) -> None:
        self._kind = kind
        self._tensorflow: Any = None
        self._made: Any = None
        self._is_making = False
        self._has_own = False
        """True where the script makes a strategy of its own."""

    def put(self, tensorflow: Any) -> None:
        """Put it into `tf.distribute`."""
        if self._kind is None:
            return
        self._tensorflow = tensorflow
        base = tensorflow.distribute.Strategy
        base.__init__ = self._constructor(base.__init__)
        if self._kind == MULTI_WORKER:
            # Its collectives have to be there before the first op.
            self._set()

    def put_in_keras(self, keras: Any) -> None:
        """Put it before all that has variables."""
        if self._kind is None:
            return
        for kind in (keras.layers.Layer, keras.optimizers.Optimizer, keras.metrics.Metric):
            kind.__init__ = self._after_it(kind.__init__)
        keras.Model.fit = self._fit(keras.Model.fit)

    def _set(self) -> None:
        if self._kind is None or self._made is not None or self._is_making or self._has_own:
            return
        distribute = self._tensorflow.distribute
        kinds = {MIRRORED: distribute.MirroredStrategy, MULTI_WORKER: distribute.MultiWorkerMirroredStrategy}
        self._is_making = True
        try:
            self._made = kinds[self._kind]()
            distribute.experimental_set_strategy(self._made)
        finally:
            self._is_making = False

    def _after_it(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def called(*args: Any, **kwargs: Any) -> Any:
            self._set()
            return method(*args, **kwargs)

        return called

    def _constructor(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the constructor of strategies, which takes this one away where the script makes another."""

        @functools.wraps(method)
        def called(strategy: Any, *args: Any, **kwargs: Any) -> Any:
            names = (kind.__name__ for kind in type(strategy).__mro__)
            if not self._is_making and find_strategy(names) is not DEFAULT:
                self._has_own = True
                overrule(NAME)
                if self._made is not None:
                    self._tensorflow.distribute.experimental_set_strategy(None)
            return method(strategy, *args, **kwargs)

        return called

    def _fit(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def called(model: Any, *args: Any, **kwargs: Any) -> Any:
            if self._made is not None and model.distribute_strategy is self._made:
                take(NAME)
            return method(model, *args, **kwargs)

        return called
