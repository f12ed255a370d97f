"""Gradient accumulation, held against the whole batch."""

from __future__ import annotations

from typing import Any

import pytest
from tfscale.trainer.techniques import accumulation

pytestmark = pytest.mark.tensorflow

TOLERANCE = 2e-6
"""Largest difference of a weight after ten steps; weights are about 0.1, and float32 rounds at 6e-8 of that."""

EQUAL = """
strategy = strategy()
def measure(loop):
    whole, cut = (Training(strategy, each, optimizer="SGD", rate=0.1) for each in (parts(), parts(accumulation="4")))
    first = whole.weights
    getattr(whole, loop)(10), getattr(cut, loop)(10)
    return {
        "moved": float(abs(whole.weights - first).max()),
        "apart": float(abs(whole.weights - cut.weights).max()),
        "copies": max(float(abs(copies[0] - copies[-1]).max())
                      for copies in map(replicas_of, cut.model.trainable_variables)),
    }
print(json.dumps({loop: measure(loop) for loop in ("fit", "custom")}))
"""


def check(measured: dict[str, dict[str, float]]) -> None:
    print(measured)
    for loop in ("fit", "custom"):
        assert measured[loop]["moved"] > 0.01, loop
        assert measured[loop]["apart"] < TOLERANCE, loop
        assert measured[loop]["copies"] == 0, loop


def test_four_micro_batches_train_as_the_whole_batch_on_two_replicas(run_script: Any, keras: str) -> None:
    check(run_script(EQUAL, keras))


@pytest.mark.matrix
def test_they_train_as_the_whole_batch_on_two_workers(run_workers: Any, keras: str) -> None:
    check(run_workers(EQUAL, keras))


@pytest.mark.slow
def test_a_step_of_four_micro_batches_has_one_all_reduce_as_a_step_of_one_batch(handed_bytes: Any, keras: str) -> None:
    handed = handed_bytes(keras)
    assert handed["accumulation"] == handed["plain"]
    assert sum(handed["plain"].values()) == 4 * (188_234 + 1)  # all gradients and the loss


MEMORY = """
import resource

BATCH, SIDE = 64, 128
class Wide:
    LEARNING_RATE, METRICS = 0.1, ()
    def examples(seed):
        return np.random.default_rng(seed).normal(size=(BATCH, SIDE, SIDE, 1)).astype("float32"), np.zeros(BATCH, int)
    def build_model(keras):
        layers = keras.layers
        each = [layers.DepthwiseConv2D(3, padding="same", activation="tanh") for _ in range(6)]
        return keras.Sequential([keras.Input((SIDE, SIDE, 1)), layers.Conv2D(8, 1), *each,
                                 layers.GlobalAveragePooling2D(), layers.Dense(2)])
    def loss(keras):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

def status(name):
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name + ":")]
    return int(line.split()[1]) << 10

training = Training(tf.distribute.OneDeviceStrategy("CPU:0"), parts(**TECHNIQUES), BATCH, "SGD", Wide)
step, iterator = training.step(), iter(training.data)
step.get_concrete_function(iterator)
before = status("VmRSS")
Path("/proc/self/clear_refs").write_text("5")
step(iterator)
print(json.dumps(status("VmHWM") - before))
"""


@pytest.mark.matrix
def test_four_micro_batches_hold_at_most_two_fifths_of_the_activations(run_script: Any) -> None:
    whole = run_script(f"TECHNIQUES = {{}}\n{MEMORY}")
    cut = run_script(f"TECHNIQUES = {{'accumulation': '4'}}\n{MEMORY}")
    print(f"peak memory of a step: {whole / 2**20:.0f} MiB, in four micro-batches {cut / 2**20:.0f} MiB")
    # Seven activations of 8 channels, each kept for the backward pass.
    assert whole > 7 * 64 * 128 * 128 * 8 * 4
    assert cut <= 0.4 * whole


def test_micro_batches_are_different_ones_and_batch_normalization_sees_each(run_script: Any, keras: str) -> None:
    script = """
class Means:
    LEARNING_RATE, METRICS = 0.0, ()
    def examples(seed):
        return np.arange(8, dtype="float32").reshape(8, 1), np.zeros(8, int)
    def build_model(keras):
        return keras.Sequential([keras.Input((1,)), keras.layers.BatchNormalization(momentum=0.5),
                                 keras.layers.Dropout(0.5), keras.layers.Dense(2)])
    def loss(keras):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

strategy = strategy()
training = Training(strategy, parts(accumulation="2"), 8, "SGD", Means).custom(1)
(mean,) = [weight for weight in training.model.non_trainable_variables if "moving_mean" in weight.name]
print(json.dumps([float(copy[0]) for copy in replicas_of(mean)]))
"""
    # Micro-batches of replica 0: (0, 1), (2, 3); of replica 1: (4, 5), (6, 7); each moves the average by half.
    assert run_script(script, keras) == [0.5 / 4 + 2.5 / 2, 4.5 / 4 + 6.5 / 2]


@pytest.mark.parametrize("text", ["", "1", "0", "-4", "4.0", "many"])
def test_anything_but_two_or_more_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="2 or more"):
        accumulation.parse(text)


def test_a_batch_that_cannot_be_cut_evenly_is_refused() -> None:
    accumulation.check_batch(4, 64)
    with pytest.raises(ValueError, match="batch of 50 examples cannot be cut into 4 equal"):
        accumulation.check_batch(4, 50)
