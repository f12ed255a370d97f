"""Input pipeline of a run: what a part does to its batches."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from tfscale.trainer.input.input_flag import InputParts

pytestmark = pytest.mark.tensorflow
NUMBERS = np.arange(64, dtype=np.float32)


def pipeline(parts: InputParts) -> Any:
    import tensorflow as tf
    from tfscale.trainer.input.batches import batches

    return batches((NUMBERS, NUMBERS), 16, 0, parts)(tf.distribute.InputContext())


def epochs(parts: InputParts) -> list[list[float]]:
    taken = np.concatenate([labels.numpy() for _, labels in pipeline(parts).take(8)])
    return [list(taken[:64]), list(taken[64:])]


def test_examples_keep_their_order_unless_they_are_shuffled() -> None:
    assert epochs(InputParts()) == [list(NUMBERS)] * 2


def test_each_epoch_is_shuffled_anew_though_it_is_cached() -> None:
    first, second = epochs(InputParts(shuffle=64, map=2, work=1, cache=True, prefetch=2))
    assert sorted(first) == sorted(second) == list(NUMBERS) and first != second


def test_a_map_leaves_examples_as_they_are_but_takes_its_time_and_a_cache_saves_it() -> None:
    def seconds(parts: InputParts) -> list[float]:
        batches, taken = iter(pipeline(parts)), []
        for _ in range(2):
            begin = time.perf_counter()
            for _ in range(4):
                features, labels = next(batches)
                assert list(features.numpy()) == list(labels.numpy())
            taken.append(time.perf_counter() - begin)
        return taken

    _, plain = seconds(InputParts(map=1, work=1))
    _, worked = seconds(InputParts(map=1, work=200))
    _, cached = seconds(InputParts(map=1, work=200, cache=True))
    print(f"second epoch of 64 examples: work=1 {plain:.4f} s, work=200 {worked:.4f} s, cached {cached:.4f} s")
    assert worked > 3 * plain and worked > 3 * cached


def test_a_dataset_without_a_policy_is_one_pipeline_a_worker_and_with_one_has_global_batches() -> None:
    import tensorflow as tf
    from tfscale.trainer.input.batches import batches
    from tfscale.trainer.input.input_pipeline import distributed

    policies = []

    class Strategy:
        distribute_datasets_from_function = staticmethod(lambda function: function)

        @staticmethod
        def experimental_distribute_dataset(data: Any) -> Any:
            policies.append(data.options().experimental_distribute.auto_shard_policy)
            return data

    function, strategy = batches((NUMBERS, NUMBERS), 16, 0, InputParts()), Strategy()
    assert distributed(strategy, function, InputParts()) is function  # type: ignore[arg-type]
    data = distributed(strategy, function, InputParts(auto_shard="data"))  # type: ignore[arg-type]
    assert data.element_spec[0].shape == (16,)
    assert policies == [tf.data.experimental.AutoShardPolicy.DATA]
