"""Names of older books that Keras 3 and TensorFlow 2.21 lack, with their old meaning."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.tensorflow


def test_mixed_precision_experimental_sets_the_policy_and_scales_the_loss() -> None:
    import keras
    from tfscale.trainer.compat import removed_names

    removed_names.mixed_precision(keras.mixed_precision)
    old = keras.mixed_precision.experimental
    before = old.global_policy()
    try:
        old.set_policy(old.Policy("mixed_bfloat16"))
        assert keras.mixed_precision.global_policy().name == "mixed_bfloat16"
    finally:
        old.set_policy(before)
    fixed = old.LossScaleOptimizer(keras.optimizers.SGD(), 128)
    assert (fixed.initial_scale, fixed.dynamic_growth_steps) == (128.0, 2**31 - 1)
    assert old.LossScaleOptimizer(keras.optimizers.SGD(), loss_scale="dynamic").dynamic_growth_steps == 2000


def test_other_names_are_todays_under_their_old_path() -> None:
    import keras
    import tensorflow as tf
    from tfscale.trainer.compat import removed_names

    removed_names.optimizers(keras.optimizers)
    removed_names.keras(keras)
    removed_names.strategies(tf)
    assert keras.optimizers.experimental.SGD is keras.optimizers.SGD
    assert keras.experimental.CosineDecay is keras.optimizers.schedules.CosineDecay
    data = tf.distribute.get_strategy().experimental_make_numpy_dataset(([1, 2], [3, 4]))
    assert [tuple(map(int, row)) for row in data] == [(1, 3), (2, 4)]
