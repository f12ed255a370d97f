"""Mixed precision: what underflows, what the scale of the loss saves, and what the replicas compute in."""

from __future__ import annotations

from typing import Any

import pytest
from tfscale.trainer.techniques import mixed

pytestmark = pytest.mark.tensorflow

GRADIENTS = """
# Gradients of 1e-3 to 1e-11 at the outputs of a layer in float16, which are those of its weights: its features are 1.
# One step of SGD(1) from weights of 0 shows them.
SIZES = (10.0 ** -np.arange(3, 12)).astype("float32")

class Sizes(keras.losses.Loss):
    def call(self, labels, predictions):
        return tf.reduce_sum(predictions * SIZES, axis=-1)

class Small:
    LEARNING_RATE, METRICS = 1.0, ()
    def examples(seed):
        return np.ones((2, 1), "float32"), np.zeros((2, 9), "float32")
    def build_model(keras):
        layers = keras.layers
        return keras.Sequential([keras.Input((1,)), layers.Dense(9, kernel_initializer="zeros", use_bias=False),
                                 layers.Activation("linear", dtype="float32")])
    def loss(keras):
        return Sizes()

def zeros(kind, is_scaled):
    keras.mixed_precision.set_global_policy("float32")
    each = parts(**({"mixed": kind} if kind else {}))
    if not is_scaled:
        each.optimizer = lambda keras, optimizer: optimizer
    return int((Training(strategy, each, 2, "SGD", Small).custom(1).weights == 0).sum())

strategy = strategy()
CASES = {"float32": (None, False), "float16 without": ("float16", False), "float16": ("float16", True),
         "bfloat16": ("bfloat16", True)}
"""


def test_gradients_below_6e_8_are_lost_in_float16_without_a_scale_of_the_loss(run_script: Any, keras: str) -> None:
    script = f"{GRADIENTS}\nprint(json.dumps({{name: zeros(*each) for name, each in CASES.items()}}))"
    assert run_script(script, keras) == {"float32": 0, "float16 without": 4, "float16": 0, "bfloat16": 0}


@pytest.mark.matrix
def test_layers_compute_in_16_bits_and_variables_stay_in_float32(run_script: Any, keras: str) -> None:
    # Without convolutions: those of CPUs take seconds in float16.
    script = """
class Dense:
    LEARNING_RATE, METRICS = 0.01, ("accuracy",)
    def examples(seed):
        images, labels = program().examples(seed)
        return images.reshape(-1, 64), labels
    def build_model(keras):
        layers = keras.layers
        return keras.Sequential([keras.Input((64,)), layers.Dense(32, "relu"), layers.Dense(10, dtype="float32")])
    loss = program().loss

strategy = strategy()
def measure(kind, loop):
    training = Training(strategy, parts(mixed=kind), module=Dense)
    before = training.loss()
    getattr(training, loop)(60)
    return {
        "types": [sorted({tf.as_dtype(layer.compute_dtype).name for layer in training.model.layers}),
                  sorted({tf.as_dtype(weight.dtype).name for weight in training.model.trainable_variables})],
        "losses": [before, training.loss()],
    }
print(json.dumps([[kind, measure(kind, loop)] for kind in ("float16", "bfloat16") for loop in ("fit", "custom")]))
"""
    for kind, measured in run_script(script, keras):
        assert measured["types"] == [sorted([kind, "float32"]), ["float32"]]  # the last layer stays in float32
        before, after = measured["losses"]
        assert after < before / 2


@pytest.mark.slow
def test_the_policy_alone_does_not_halve_the_bytes_of_the_all_reduce(handed_bytes: Any, keras: str) -> None:
    assert handed_bytes(keras)["mixed"] == handed_bytes(keras)["plain"]


@pytest.mark.matrix
def test_float16_is_refused_where_the_scale_of_the_loss_does_not_work(run_script: Any, keras: str) -> None:
    script = """
parts(mixed="bfloat16").check(64)
parts(mixed="float16").check(64)
with tf.distribute.experimental.CentralStorageStrategy(["CPU:0"]).scope():
    parts(mixed="bfloat16").check(64)
    try:
        parts(mixed="float16").check(64)
    except ValueError as error:
        print(json.dumps(str(error)))
"""
    assert run_script(script, keras) == (
        "float16 scales the loss, which CentralStorageStrategy does not support; use bfloat16"
    )


def test_anything_but_the_two_types_is_refused() -> None:
    assert mixed.parse("bfloat16") == "bfloat16"
    with pytest.raises(ValueError, match="write float16 or bfloat16"):
        mixed.parse("float8")
