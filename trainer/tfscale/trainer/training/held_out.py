"""Evaluation of a trained model on held-out examples, on one device and outside of any strategy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import tensorflow as tf
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.trainer.input.batches import Examples
from tfscale.trainer.saving.checkpoints import UNREADABLE, newest_in, step_of


def plain_model(keras: Any, program: ModuleType, weights: Any) -> Any:
    """Return the program's model with these weights, not compiled; a partitioner may have split the weights."""
    model = program.build_model(keras)
    model.set_weights(join(weights, [tuple(weight.shape) for weight in model.weights]))
    return model


def evaluate(keras: Any, program: ModuleType, model: Any, examples: Examples) -> dict[str, float]:
    """Compile the model, and return its values of the program's metrics."""
    _compile(keras, program, model)
    return _metrics(model, examples)


def join(parts: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Return arrays of these shapes; each is one part, or several parts joined along the first axis."""
    rest = iter(parts)
    joined = []
    for shape in shapes:
        whole = next(rest)
        while whole.shape != shape:
            whole = np.concatenate([whole, next(rest)])
        joined.append(whole)
    return joined


def follow_checkpoints(keras: Any, program: ModuleType, folder: Path, steps: int, examples: Examples) -> None:
    """Evaluate each checkpoint in the folder up to the last step's, as an evaluator does.

    Raises UsageError for a checkpoint that cannot be found, and TfscaleError for one that cannot be read.
    """
    try:
        newest_in(folder)
    except ValueError as error:
        raise UsageError(f"--checkpoints {folder}: {error}") from None
    model = program.build_model(keras)
    _compile(keras, program, model)
    checkpoint = tf.train.Checkpoint(model=model)
    for path in tf.train.checkpoints_iterator(str(folder), min_interval_secs=0):
        try:
            checkpoint.restore(path).expect_partial()
        except UNREADABLE:
            raise TfscaleError(f"--checkpoints {folder}: {Path(path).name} is damaged, or was removed") from None
        step = step_of(path)
        metrics = ", ".join(f"{name} {value:.4f}" for name, value in _metrics(model, examples).items())
        print(f"step {step}: held out {metrics}", flush=True)
        if step >= steps:
            break


def _compile(keras: Any, program: ModuleType, model: Any) -> None:
    model.compile(loss=program.loss(keras), metrics=list(program.METRICS))


def _metrics(model: Any, examples: Examples) -> dict[str, float]:
    features, labels = examples
    metrics = model.evaluate(features, labels, batch_size=64, verbose=0, return_dict=True)
    return {name: float(value) for name, value in metrics.items()}
