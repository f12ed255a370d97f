"""How the training goes: the newest that Keras handed to its callbacks."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
from tfscale.trainer.probe.report import Training


class Progress:
    """Hooks leave references here, the probe's thread looks at what they refer to."""

    def __init__(self) -> None:
        self.epoch: int | None = None
        self.logs: Any = None
        """Of the newest batch: numbers, or tensors that may still be computed."""
        self.model: Any = None

    def read(self) -> Training | None:
        """None where Keras has said nothing; waits for a tensor that is still computed."""
        if self.epoch is None:
            return None
        loss = self._loss()
        return Training(
            epoch=self.epoch,
            global_step=_number(getattr(self._optimizer, "iterations", None), int),
            loss=loss if loss is not None and math.isfinite(loss) else None,
            finite=None if loss is None else math.isfinite(loss),
            learning_rate=_number(getattr(self._optimizer, "learning_rate", None), float),
        )

    @property
    def _optimizer(self) -> Any:
        return getattr(self.model, "optimizer", None)

    def _loss(self) -> float | None:
        # A function's result on a worker: what the coordinator has fetched of it so far.
        logs = getattr(self.logs, "_fetched_tensors", self.logs)
        return _number(logs.get("loss"), float) if isinstance(logs, dict) else None


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
