"""Progress of the training: the newest logs that Keras gave to its callbacks."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from tfscale.core.records.training import LONGEST_LOG_NAME, MOST_LOGS, LoggedNumber, Training, paired
from tfscale.trainer.probe.report.pace import Pace
from tfscale.trainer.probe.report.remote_logs import RemoteReader, fetched, is_remote

_NAMED = ("loss", "learning_rate", "grad_norm")
"""Logs that are fields of `Training`."""


@dataclass
class _Fit:
    """One call of `fit`, or one loop without epochs."""

    epoch: int | None
    params: Any = None
    """Facts that Keras tells callbacks of this `fit`: `epochs`, and `steps` of each where it knows them."""
    pace: Pace = field(default_factory=Pace)
    logs: Any = None
    """Logs of the newest batch: numbers, or tensors that may still be computed."""
    ended: tuple[int, Mapping[str, Any]] = (-1, {})
    """Newest epoch that has ended, and its logs; together, as another thread reads them."""
    model: Any = None
    is_over: bool = False
    is_read: bool = False
    """True once the last state of the training was read, after which nothing is reported."""

    @property
    def optimizer(self) -> Any:
        return getattr(self.model, "optimizer", None)

    def training(self) -> Training:
        """Return the state of the training. Waits for a tensor that is still being computed, and for its worker."""
        # A copy, as a callback may add to them meanwhile.
        logs = dict(fetched(self.logs))
        loss, norm = (_number(logs.get(name), float) for name in ("loss", "grad_norm"))
        further, left_out = self._further(logs)
        told = Training(
            epoch=self.epoch,
            global_step=_number(getattr(self.optimizer, "iterations", None), int),
            loss=_finite(loss),
            finite=None if loss is None else math.isfinite(loss),
            learning_rate=_number(getattr(self.optimizer, "learning_rate", None), float),
            grad_norm=_finite(norm),
            logs=further,
            logs_left_out=left_out,
        )
        return self._with_length(told)

    def _with_length(self, told: Training) -> Training:
        """Return the training with what is known of the length of this `fit`, and with the time that is left.

        A length that stands for "until somebody stops it" is none, until the `fit` is over.
        """
        params = self.params if isinstance(self.params, Mapping) else {}
        # A loop without epochs is one.
        epochs = 1 if self.epoch is None else _number(params.get("epochs"), int)
        steps = _number(params.get("steps"), int) or self.pace.ended_steps
        # Keras notes a step of a parameter server's worker when it is scheduled.
        is_step_done = not is_remote(self.logs)
        left = None
        if self.is_over:
            left = 0.0
        elif epochs and steps:
            left = self.pace.time_left(steps, max(0, epochs - 1 - (self.epoch or 0)), is_step_done=is_step_done)
            if self.pace.is_endless(steps):
                steps = left = None
            elif self.pace.is_endless(epochs * steps):
                epochs = left = None
        between = self.pace.between_epochs if is_step_done else None
        return replace(
            told,
            epochs=None if self.epoch is None else epochs,
            epoch_step=self.pace.done if is_step_done else None,
            epoch_steps=steps,
            time_left=left,
            between_epochs=None if between is None else float(f"{between:.2g}"),
        )

    def _further(self, logs: Mapping[str, Any]) -> tuple[tuple[LoggedNumber, ...], int]:
        """Return the logs without a field of their own, `accuracy` beside `val_accuracy`, and how many are left out."""
        numbers, left_out = list[LoggedNumber](), 0
        ended_epoch, ended = self.ended
        for name in paired(name for name in {**logs, **ended} if isinstance(name, str)):
            value, epoch = (logs[name], None) if name in logs else (ended[name], ended_epoch)
            if name in _NAMED or not _is_single(value):
                continue
            if len(numbers) == MOST_LOGS or len(name) > LONGEST_LOG_NAME:
                left_out += 1
            elif (number := _number(value, float)) is not None:
                numbers.append(LoggedNumber(name, _finite(number), epoch))
        return tuple(numbers), left_out


class Progress:
    """References from hooks to the probe's thread, which reads the numbers: a hook would wait for them."""

    def __init__(self) -> None:
        self._fit: _Fit | None = None
        self._elsewhere = RemoteReader()

    @property
    def has_fit(self) -> bool:
        """True once a `fit` has begun an epoch."""
        return self._fit is not None and self._fit.epoch is not None

    def epoch_begun(self, epoch: int, params: Any = None) -> None:
        """Take in the begin of this epoch of a `fit`, and what Keras tells its callbacks of it."""
        # A `fit` that an error has ended says nothing of its end.
        if self._fit is None or self._fit.is_over or self._fit.params is not params:
            self._fit = _Fit(epoch, params)
        self._fit.epoch = epoch
        self._fit.pace.epoch_begun()

    def loop_step_done(self, number: int, steps: int) -> None:
        """Take in that a loop without epochs has made so many of its steps."""
        if self._fit is None or self._fit.is_over or self._fit.epoch is not None:
            self._fit = _Fit(None, {"steps": steps})
        self._fit.pace.step_done(number)

    def epoch_ended(self, epoch: int, logs: Any) -> None:
        """Take in the logs of an epoch that has ended, which are numbers."""
        if self._fit is not None and isinstance(logs, dict):
            self._fit.ended = (epoch, dict(logs))

    def batch_ended(self, batch: Any, logs: Any, model: Any) -> None:
        """Take in the logs of a batch of the epoch, from 0, and its model."""
        if self._fit is not None:
            self._fit.logs, self._fit.model = logs, model
            if isinstance(batch, int):
                self._fit.pace.step_done(batch + 1)

    def ended(self) -> None:
        """Note that the `fit` is over."""
        if self._fit is not None:
            self._fit.is_over = True

    def read(self) -> Training | None:
        """Return the newest state, None where a `fit` is over and was read, or none has begun.

        Waits for a tensor that is still computed in this process.
        """
        fit = self._fit
        if fit is None or fit.is_read:
            return None
        is_last = fit.is_over
        training = self._elsewhere.read(fit.training) if is_remote(fit.logs) else fit.training()
        if is_last:
            # A reference would keep the model from being freed.
            fit.is_read, fit.logs, fit.model = True, None, None
        return training


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _number(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    # A learning rate may be a schedule, a loss be of several replicas: what is not a number is unknown.
    with contextlib.suppress(Exception):
        return kind(np.asarray(plain(value)))
    return None


def _is_single(value: Any) -> bool:
    """Return whether a log may be one number; tells a confusion matrix without reading it."""
    with contextlib.suppress(Exception):
        return not isinstance(value, str) and len(getattr(plain(value), "shape", ())) == 0
    return False


def plain(value: Any) -> Any:
    """Return TensorFlow's variable behind a variable of Keras 3, any other value unchanged."""
    return value.value if hasattr(value, "path") else value
