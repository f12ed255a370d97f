"""Slowness of one task that trains by `fit`: a real delay in each of its steps, to show how it is found."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tfscale.trainer.slow.delay import Delay
from tfscale.trainer.slow.delays import Delays

Pipeline = Callable[[tf.distribute.InputContext], tf.data.Dataset]


class Slowness:
    """Builder of the parts of a training, delayed in one phase; without a delay the parts are unchanged.

    Args:
        keras: the Keras of the model.
        delay: the delay of this task, None for none.
    """

    def __init__(self, keras: Any, delay: Delay | None) -> None:
        self._keras = keras
        self._delay = delay
        self._first: float | None = None
        self._delays = Delays(keras, self._due)

    def model(self, model: Any) -> Any:
        """Return the model behind a layer that notes when a replica begins to compute."""
        if self._delay is None:
            return model
        (inputs,) = model.inputs
        features = self._keras.Input(inputs.shape[1:], dtype=inputs.dtype)
        return self._keras.Model(features, model(self._delays.begin()(features)))

    def optimizer(self, kind: type, rate: Any) -> Any:
        """Return an optimizer of this kind."""
        return kind(rate) if self._delay is None else self._delays.optimizer(kind, rate)

    def batches(self, dataset: Pipeline) -> Pipeline:
        """Return the input pipeline."""
        return dataset if self._delay is None else lambda context: self._delays.input(dataset(context))

    def callbacks(self) -> list[Any]:
        """Return callbacks for `fit`."""
        return [] if self._delay is None else [self._delays.callback()]

    def _due(self, phase: str) -> Delay | None:
        """Return the delay if it is due in this phase now; its start is counted from the first step."""
        if self._delay is None:
            return None
        if self._first is None:
            if phase != "compute":
                return None
            self._first = time.monotonic()
        has_begun = time.monotonic() - self._first >= self._delay.start
        return self._delay if phase == self._delay.phase and has_begun else None
