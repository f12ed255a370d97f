"""Data of a run: examples of the program, a tenth of them held out, and batches of the rest for each input pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tfscale.core.errors import UsageError
from tfscale.trainer.input.data_service import served
from tfscale.trainer.input.input_flag import USUAL, InputParts
from tfscale.trainer.input.input_pipeline import batched, from_anywhere, in_splits, prepared

MOST_HELD_OUT = 512
"""Most examples that are held out. With 512 an accuracy is known to some 2 %, within seconds; 50 would leave it at 7
%, and a tenth of a large data set would be evaluated for minutes after the last step."""

Examples = tuple[Any, Any]
"""Features and labels, arrays of as many rows."""


def split(features: Any, labels: Any) -> tuple[Examples, Examples]:
    """Return the examples to train on, and those that are held out. Raises UsageError where each has no label."""
    if not hasattr(features, "shape") or not hasattr(labels, "shape") or len(features) != len(labels):
        told = " and ".join(f"{len(each)} of {type(each).__name__}" for each in (features, labels))
        raise UsageError(f"examples() gives {told}: two arrays are needed, with a label for each of the features")
    count = min(len(labels) // 10, MOST_HELD_OUT)
    return (features[count:], labels[count:]), (features[:count], labels[:count])


def batches(
    examples: Examples, global_batch: int, seed: int | None, parts: InputParts = USUAL
) -> Callable[[tf.distribute.InputContext], tf.data.Dataset]:
    """Return the function of `distribute_datasets_from_function`: batches of one replica, without end.

    Each of n input pipelines takes every n-th example. A parameter server's workers each have one pipeline: all
    examples, with a `seed` in the same order for all of them, without one each from a place of its own. A service of
    tf.data shares the batches of one pipeline out.
    """
    features, labels = examples

    def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
        pipelines, pipeline = context.num_input_pipelines, context.input_pipeline_id
        if parts.service:
            pipelines, pipeline = 1, 0
        data = _source((features[pipeline::pipelines], labels[pipeline::pipelines]), seed, parts)
        size = context.get_per_replica_batch_size(global_batch)
        data = batched(prepared(data, parts), parts, size, len(labels), pipeline + (seed or 0))
        if parts.service:
            data = served(data, parts.sharding, f"examples-{seed}-{size}")
        return data.prefetch(parts.prefetch) if parts.prefetch else data

    return dataset


def sharing(replicas: int, workers: int, parts: InputParts = USUAL) -> int:
    """Return how many replicas share the examples: in a step no two of them use the same example.

    Workers share them, unless each has all of them by a policy that is off; those of the service make whole batches.
    """
    if parts.service:
        return 1 if parts.sharding == "off" else replicas
    return replicas // workers if parts.auto_shard == "off" else replicas


def _source(examples: Examples, seed: int | None, parts: InputParts) -> tf.data.Dataset:
    """Return the examples of a pipeline, one by one."""
    if parts.service and parts.sharding == "dynamic":
        return in_splits(examples)
    # Workers of the service that each have all examples would otherwise make the same batches.
    return from_anywhere(examples) if seed is None or parts.service else tf.data.Dataset.from_tensor_slices(examples)
