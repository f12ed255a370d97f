"""Names that older books use and that the installed TensorFlow and Keras really lack."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("tf.contrib", "ended with TensorFlow 1"),
        ("tf.estimator", "under strategy.scope()"),
        ("tf.enable_eager_execution", "leave the line out"),
        ("tf.Session", "tf.compat.v1.Session"),
        ("tf.train.AdamOptimizer", "tf.compat.v1.train.AdamOptimizer"),
        ("tf.train.experimental.enable_mixed_precision_graph_rewrite", "set_global_policy"),
        ("tf.keras.utils.multi_gpu_model", "MirroredStrategy().scope()"),
    ],
)
def test_a_name_that_is_gone_gets_what_is_written_today(lines: str, words: str) -> None:
    import tensorflow as tf
    from tfscale.trainer.compat.listings.last_error import advice

    with pytest.raises(AttributeError) as caught:
        exec(lines, {"tf": tf})
    assert words in str(advice(caught.value))


def test_a_misspelt_name_gets_nothing() -> None:
    import tensorflow as tf
    from tfscale.trainer.compat.listings.last_error import advice

    with pytest.raises(AttributeError) as caught:
        exec("tf.distribute.MirrorStrategy", {"tf": tf})
    assert advice(caught.value) is None
