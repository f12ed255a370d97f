"""Data of a run."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.tensorflow


def test_a_tenth_is_held_out_and_at_most_512_examples() -> None:
    from tfscale.trainer.input.batches import split

    training, held_out = split(np.arange(100), np.arange(100))
    assert (list(held_out[0]), len(training[0])) == (list(range(10)), 90)
    assert len(split(np.arange(9_000), np.arange(9_000))[1][0]) == 512


@pytest.mark.parametrize("labels", [np.arange(9), list(range(10)), "no array"])
def test_examples_that_have_no_label_each_are_refused(labels: object) -> None:
    from tfscale.core.errors import UsageError
    from tfscale.trainer.input.batches import split

    with pytest.raises(UsageError, match=r"examples\(\) gives 10 of ndarray and .*: two arrays are needed"):
        split(np.arange(10), labels)


def test_pipelines_share_the_examples_and_batches_are_of_one_replica() -> None:
    import tensorflow as tf
    from tfscale.trainer.input.batches import batches

    seen = []
    for pipeline in range(2):
        context = tf.distribute.InputContext(2, pipeline, num_replicas_in_sync=4)
        data = batches((np.arange(64), np.arange(64)), 32, seed=0)(context)
        taken = [features.numpy() for features, _ in data.take(4)]
        assert all(len(batch) == 8 for batch in taken)
        seen.append({int(number) for batch in taken for number in batch})
    assert len(seen[0]) == len(seen[1]) == 32 and not seen[0] & seen[1]


@pytest.mark.parametrize(
    ("asked", "together"),
    [
        ("cache", 4),
        ("auto-shard=data", 4),
        ("auto-shard=auto", 4),
        ("auto-shard=off", 2),
        ("service=2", 4),
        ("service=2,sharding=off", 1),
    ],
)
def test_replicas_share_the_examples_unless_each_worker_has_all_of_them(asked: str, together: int) -> None:
    from tfscale.trainer.input.batches import sharing
    from tfscale.trainer.input.input_flag import parse_input

    assert sharing(4, 2, parse_input(asked, "multi-worker")) == together


def test_workers_without_a_seed_each_begin_at_a_place_of_their_own() -> None:
    import tensorflow as tf
    from tfscale.trainer.input.batches import batches

    tf.keras.utils.set_random_seed(0)

    # The chief traces the function once, and all workers run it.
    @tf.function
    def first() -> tf.Tensor:
        data = batches((np.arange(1_000), np.arange(1_000)), 64, seed=None)(tf.distribute.InputContext())
        return next(iter(data))[0]

    one, other = (list(first().numpy()) for _ in range(2))
    assert one != other and len({*one}) == len({*other}) == 64
