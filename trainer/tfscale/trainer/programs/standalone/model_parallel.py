"""Model parallelism: the two halves of a network on two devices, each with its weights, gradients and optimizer.

    tfscale-train run model-parallel --steps 50

For a network that exceeds one device's memory: 784-2048 is on the first device, 1024-10 on the second. A device scope
around the layers alone would place the forward pass, but leave the backward pass, which the tape adds later, and the
optimizer's slots on the default device. So each half has a tape and an optimizer of its own, and all its work is inside
the scope of its device. The devices work in turn: `pipeline` lets them work at once.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import Any

import tensorflow as tf
from sklearn.datasets import load_digits
from tfscale.trainer.launch.program_flags import above_0, command_line, write_json
from tfscale.trainer.model_parallelism.logical_devices import logical_devices

NEEDS = ("sklearn",)


def main(settings: argparse.Namespace) -> None:
    """Train, and print the loss of each step, then what each device holds."""
    halves = build_halves(tf.keras, logical_devices(2))
    result = train(halves, settings.batch, settings.steps)
    for device, number in result["bytes"].items():
        print(f"{device}: {number / 1e6:.1f} MB of weights and optimizer")
    print(f"step {1000 * result['step_seconds']:.1f} ms, final loss {result['loss'][-1]}")
    write_json(settings, result)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line. Raises UsageError."""
    parser = command_line("model-parallel", __doc__)
    parser.add_argument("--batch", type=above_0, default=64, metavar="N", help="examples a step; default 64")
    parser.add_argument("--steps", type=above_0, default=50, metavar="N", help="default 50")
    return parser.parse_args(words)


class Half:
    """Half of the network on a device, with an optimizer whose variables are on the same device."""

    def __init__(self, keras: Any, device: str, inputs: int, layers: Sequence[Any]) -> None:
        self.device = device
        with tf.device(device):
            self.model = keras.Sequential([keras.Input((inputs,)), *layers])
            self.optimizer = keras.optimizers.Adam(0.001)
            self.optimizer.build(self.model.trainable_variables)

    def update(self, gradients: Sequence[Any]) -> None:
        """Apply gradients on the device."""
        with tf.device(self.device):
            self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))


def build_halves(keras: Any, devices: Sequence[str]) -> tuple[Half, Half]:
    """Build both halves: 1,607,680 weights on the first device, 2,108,426 on the second."""
    dense, he_normal = keras.layers.Dense, keras.initializers.HeNormal
    first = [dense(2048, "relu", kernel_initializer=he_normal(1))]
    second = [dense(1024, "relu", kernel_initializer=he_normal(2)), dense(10, kernel_initializer=he_normal(3))]
    return Half(keras, devices[0], 784, first), Half(keras, devices[1], 2048, second)


def gradients(halves: tuple[Half, Half], loss_of: Any, features: Any, labels: Any) -> tuple[Any, list[Any], list[Any]]:
    """Return the loss, and the gradients of each half's weights, all computed on its device."""
    first, second = halves
    with tf.device(first.device), tf.GradientTape() as tape_of_first:
        sent = first.model(features)
    with tf.device(second.device):
        received = tf.identity(sent)
        with tf.GradientTape() as tape_of_second:
            tape_of_second.watch(received)
            loss = loss_of(labels, second.model(received))
        of_received, *of_second = tape_of_second.gradient(loss, [received, *second.model.trainable_variables])
    with tf.device(first.device):
        of_first = tape_of_first.gradient(sent, first.model.trainable_variables, output_gradients=of_received)
    return loss, of_first, of_second


def train(halves: tuple[Half, Half], batch: int, steps: int) -> dict[str, Any]:
    """Train on digits enlarged to 28 x 28; return losses, seconds of a step, weights and bytes of each device."""
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function  # type: ignore[untyped-decorator]
    def step(features: Any, labels: Any) -> Any:
        loss, *of_halves = gradients(halves, loss_of, features, labels)
        for half, each in zip(halves, of_halves, strict=True):
            half.update(each)
        return loss

    images, labels = load_digits(return_X_y=True)
    images = tf.image.resize(images.reshape(-1, 8, 8, 1) / 16, (28, 28)).numpy().reshape(-1, 784)
    data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels), seed=0).repeat().batch(batch)
    losses, seconds = [], []
    for number, (features, answers) in enumerate(data.take(steps), 1):
        begin = time.perf_counter()
        losses.append(float(step(features, answers)))
        seconds.append(time.perf_counter() - begin)
        print(f"step {number}: loss {losses[-1]:.4f}", flush=True)
    return {
        "loss": losses,
        "step_seconds": median(seconds),
        "weights": [half.model.count_params() for half in halves],
        "bytes": bytes_by_device(halves),
    }


def bytes_by_device(halves: tuple[Half, Half]) -> dict[str, int]:
    """Return the bytes of weights and optimizers by device, as TensorFlow has placed them."""
    found: dict[str, int] = defaultdict(int)
    for half in halves:
        for variable in (*half.model.weights, *half.optimizer.variables):
            tensor = tf.convert_to_tensor(variable)
            found[tensor.device] += tensor.shape.num_elements() * tensor.dtype.size
    return dict(found)
