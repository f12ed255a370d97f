"""Tensor parallelism by DTensor: each layer's weights are split over a mesh, batch x model, of logical CPUs.

    tfscale-train run tensor-parallel --batch-parts 2 --model-parts 2

The first matrix is split by columns and the second by rows, so that each device computes its part of the hidden layer
alone, and one sum over `model` completes the output (Shoeybi et al., Megatron-LM, 2019). The gradients of the weights
are summed over `batch`. DTensor adds both sums; nothing here names them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from tensorflow.experimental import dtensor
from tfscale.trainer.launch.program_flags import above_0, check_divides, command_line, write_json
from tfscale.trainer.model_parallelism.logical_devices import logical_devices

NEEDS = ("sklearn",)

PIXELS, CLASSES = 64, 10
LEARNING_RATE = 0.1
SPLIT = {
    "hidden kernel": (dtensor.UNSHARDED, "model"),
    "hidden bias": ("model",),
    "output kernel": ("model", dtensor.UNSHARDED),
    "output bias": (dtensor.UNSHARDED,),
}
"""Dimension of the mesh over which each dimension of a weight is split."""


def main(settings: argparse.Namespace) -> None:
    """Train, and print the loss of each step, then the part of each weight that a device holds."""
    devices = logical_devices(settings.batch_parts * settings.model_parts)
    mesh = dtensor.create_mesh(
        [("batch", settings.batch_parts), ("model", settings.model_parts)],
        devices=[device.removeprefix("/device:") for device in devices],
    )
    weights = split_weights(initial_weights(settings.width), mesh)
    result = train(weights, mesh, settings.batch, settings.steps)
    for name, shapes in result["parts"].items():
        print(f"{name} {list(weights[name].shape)}: {len(shapes)} devices hold {shapes[0]} each")
    print(f"step {1000 * result['step_seconds']:.1f} ms, final loss {result['loss'][-1]}")
    write_json(settings, result)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line. Raises UsageError."""
    parser = command_line("tensor-parallel", __doc__)
    parser.add_argument(
        "--batch-parts", type=above_0, default=2, metavar="N", help="devices that share a batch; default 2"
    )
    parser.add_argument(
        "--model-parts", type=above_0, default=2, metavar="N", help="devices that share a layer; default 2"
    )
    parser.add_argument("--batch", type=above_0, default=64, metavar="N", help="examples a step; default 64")
    parser.add_argument(
        "--width", type=above_0, default=512, metavar="N", help="units of the hidden layer; default 512"
    )
    parser.add_argument("--steps", type=above_0, default=50, metavar="N", help="default 50")
    settings = parser.parse_args(words)
    check_divides(settings, "batch", "batch_parts")
    check_divides(settings, "width", "model_parts")
    return settings


def initial_weights(width: int) -> dict[str, np.ndarray]:
    """Return the whole weights, from a seed."""
    random = np.random.default_rng(1)
    return {
        "hidden kernel": random.normal(0, (2 / PIXELS) ** 0.5, (PIXELS, width)).astype(np.float32),
        "hidden bias": np.zeros(width, np.float32),
        "output kernel": random.normal(0, (2 / width) ** 0.5, (width, CLASSES)).astype(np.float32),
        "output bias": np.zeros(CLASSES, np.float32),
    }


def split(value: Any, mesh: dtensor.Mesh, *dimensions: str) -> Any:
    """Return a tensor whose parts are on the devices of the mesh."""
    whole = dtensor.copy_to_mesh(value, dtensor.Layout.replicated(mesh, rank=len(dimensions)))
    return dtensor.relayout(whole, dtensor.Layout(list(dimensions), mesh))


def split_weights(weights: dict[str, np.ndarray], mesh: dtensor.Mesh) -> dict[str, Any]:
    """Return variables, split as `SPLIT` says."""
    return {name: dtensor.DVariable(split(value, mesh, *SPLIT[name])) for name, value in weights.items()}


def loss_of(weights: dict[str, Any], images: Any, labels: Any) -> Any:
    """Return the mean loss, written as for one device: the layouts of its inputs split the work."""
    hidden = tf.nn.relu(tf.matmul(images, weights["hidden kernel"]) + weights["hidden bias"])
    logits = tf.matmul(hidden, weights["output kernel"]) + weights["output bias"]
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels, logits))


@tf.function  # type: ignore[untyped-decorator]
def train_step(weights: dict[str, Any], images: Any, labels: Any) -> Any:
    """Take one step of gradient descent, and return the loss before it."""
    with tf.GradientTape() as tape:
        loss = loss_of(weights, images, labels)
    for name, gradient in tape.gradient(loss, weights).items():
        weights[name].assign_sub(LEARNING_RATE * gradient)
    return loss


def train(weights: dict[str, Any], mesh: dtensor.Mesh, batch: int, steps: int) -> dict[str, Any]:
    """Train; return losses, seconds of a step, and the shape of each device's part of each weight."""
    losses, seconds = [], []
    for step, (images, labels) in enumerate(batches(batch, steps), 1):
        begin = time.perf_counter()
        there = [split(each, mesh, "batch", dtensor.UNSHARDED) for each in (images, labels)]
        losses.append(float(train_step(weights, *there)))
        seconds.append(time.perf_counter() - begin)
        print(f"step {step}: loss {losses[-1]:.4f}", flush=True)
    parts = {
        name: [each.shape.as_list() for each in dtensor.unpack(weight.read_value())] for name, weight in weights.items()
    }
    return {"loss": losses, "step_seconds": median(seconds), "parts": parts}


def batches(batch: int, steps: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield `steps` batches of digits, with labels as one-hot rows."""
    images, labels = load_digits(return_X_y=True)
    random = np.random.default_rng(0)
    one_hot = np.eye(CLASSES, dtype=np.float32)
    for _ in range(steps):
        chosen = random.choice(len(images), batch)
        yield (images[chosen] / 16).astype(np.float32), one_hot[labels[chosen]]
