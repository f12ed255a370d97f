"""How the training goes: the newest that Keras handed to its callbacks."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from tfscale.core.records import Training


@dataclass
class _Fit:
    """One call of `fit`."""

    epoch: int
    logs: Any = None
    """Of the newest batch: numbers, or tensors that may still be computed."""
    model: Any = None
    is_over: bool = False
    is_told: bool = False
    """Whether its last state was read, after which there is nothing more to be told."""

    @property
    def optimizer(self) -> Any:
        return getattr(self.model, "optimizer", None)

    @property
    def loss(self) -> float | None:
        # A function's result on a worker: what the coordinator has fetched of it so far.
        logs = getattr(self.logs, "_fetched_tensors", self.logs)
        return _number(logs.get("loss"), float) if isinstance(logs, dict) else None


class Progress:
    """Hooks leave references here, the probe's thread looks at what they refer to."""

    def __init__(self) -> None:
        self._fit: _Fit | None = None

    def epoch_begun(self, epoch: int) -> None:
        """This epoch of a `fit` begins."""
        if self._fit is None or self._fit.is_over:
            self._fit = _Fit(epoch)
        self._fit.epoch = epoch

    def batch_ended(self, logs: Any, model: Any) -> None:
        """Only remembered: to look at the numbers here would wait for them."""
        if self._fit is not None:
            self._fit.logs, self._fit.model = logs, model

    def ended(self) -> None:
        """The `fit` is over."""
        if self._fit is not None:
            self._fit.is_over = True

    def read(self) -> Training | None:
        """None where Keras has said nothing since a `fit` was over; waits for a tensor that is still computed."""
        fit = self._fit
        if fit is None or fit.is_told:
            return None
        is_last, loss = fit.is_over, fit.loss
        training = Training(
            epoch=fit.epoch,
            global_step=_number(getattr(fit.optimizer, "iterations", None), int),
            loss=loss if loss is not None and math.isfinite(loss) else None,
            finite=None if loss is None else math.isfinite(loss),
            learning_rate=_number(getattr(fit.optimizer, "learning_rate", None), float),
        )
        if is_last:
            # Nor is its model kept from being freed.
            fit.is_told, fit.logs, fit.model = True, None, None
        return training


def _number(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    # A learning rate may be a schedule, a loss be of several replicas: whatever is no number is not told.
    with contextlib.suppress(Exception):
        return kind(np.asarray(plain(value)))
    return None


def plain(value: Any) -> Any:
    """TensorFlow's variable behind a variable of Keras 3, anything else as it is."""
    return value.value if hasattr(value, "path") else value
