"""Pipeline parallelism: stages of a deep network on devices with a thread each, by GPipe or 1F1B, on digits.

    tfscale-train run pipeline --stages 2 --micro-batches 8 --schedule 1f1b
    tfscale-train run pipeline --stages 1 --micro-batches 1                # the same network on one device

Devices are GPUs where there is one for each stage, else CPUs with one thread each: a core a stage. The bubble is
measured: the share of all stages' time in which they ran neither a forward nor a backward pass.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

import tensorflow as tf
from sklearn.datasets import load_digits
from tfscale.trainer.launch.program_flags import above_0, check_divides, check_steps, command_line, write_json
from tfscale.trainer.model_parallelism.logical_devices import logical_devices
from tfscale.trainer.model_parallelism.schedules import SCHEDULES, expected_bubble, measured_bubble
from tfscale.trainer.model_parallelism.stage_report import report_step
from tfscale.trainer.model_parallelism.stages import Stage, run_passes

NEEDS = ("sklearn",)

CLASSES = 10
TRACED = 2
"""Steps in which TensorFlow traces and allocates: not counted in times."""


def main(settings: argparse.Namespace) -> None:
    """Train, and print the loss of each step, then the bubble and the memory of the stages."""
    devices = logical_devices(settings.stages)
    stages = build_stages(tf.keras, devices, settings.layers, settings.width, settings.recompute)
    result = train(stages, settings)
    print(f"bubble {result['bubble']:.1%}, expected {result['expected_bubble']:.1%} for stages of equal work")
    print(f"step {1000 * result['step_seconds']:.0f} ms, final loss {result['loss'][-1]}")
    write_json(settings, result)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line. Raises UsageError."""
    parser = command_line("pipeline", __doc__)
    parser.add_argument("--stages", type=above_0, default=2, metavar="N", help="default 2")
    parser.add_argument("--micro-batches", type=above_0, default=8, metavar="N", help="parts of a batch; default 8")
    parser.add_argument("--schedule", choices=SCHEDULES, default="1f1b", help="default 1f1b")
    parser.add_argument("--recompute", action="store_true", help="hold the input of a stage, not its activations")
    parser.add_argument("--batch", type=above_0, default=2048, metavar="N", help="examples a step; default 2048")
    parser.add_argument(
        "--layers", type=above_0, default=16, metavar="N", help="hidden layers of all stages; default 16"
    )
    parser.add_argument("--width", type=above_0, default=512, metavar="N", help="units of a hidden layer; default 512")
    parser.add_argument("--steps", type=above_0, default=20, metavar="N", help="default 20")
    settings = parser.parse_args(words)
    check_steps(settings, TRACED)
    check_divides(settings, "batch", "micro_batches")
    check_divides(settings, "layers", "stages")
    return settings


def build_stages(keras: Any, devices: Sequence[str], layers: int, width: int, recompute: bool = False) -> list[Stage]:
    """Build the network, the same for any number of stages: 64 pixels, hidden layers shared out evenly, 10 classes."""
    each = layers // len(devices)
    stages = []
    for index, device in enumerate(devices):
        is_first, is_last = index == 0, index == len(devices) - 1
        seeds = range(1 + index * each, 1 + (index + 1) * each)
        with tf.device(device):
            model = keras.Sequential([keras.Input((64 if is_first else width,))])
            for seed in [0, *seeds] if is_first else seeds:
                model.add(keras.layers.Dense(width, "relu", kernel_initializer=keras.initializers.HeNormal(seed)))
            if is_last:
                model.add(keras.layers.Dense(CLASSES, kernel_initializer=keras.initializers.HeNormal(layers + 1)))
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True) if is_last else None
        stages.append(Stage(model, device, keras.optimizers.SGD(0.01), loss, recompute))
    return stages


def train(stages: Sequence[Stage], settings: argparse.Namespace) -> dict[str, Any]:
    """Train; return losses, medians of the steps after the first, and the most activations of each stage."""
    m, losses, bubbles, seconds = settings.micro_batches, [], [], []
    orders = [SCHEDULES[settings.schedule](stage, len(stages), m) for stage in range(len(stages))]

    @tf.function  # type: ignore[untyped-decorator]
    def update() -> None:
        for stage in stages:
            stage.update()

    with ThreadPoolExecutor(len(stages)) as pool:
        for step, (features, labels) in enumerate(batches(settings.batch).take(settings.steps), 1):
            begin = time.perf_counter()
            loss, spans = run_passes(pool, stages, orders, tf.split(features, m), tf.split(labels, m))
            update()
            seconds.append(time.perf_counter() - begin)
            report_step(spans)
            losses.append(loss)
            bubbles.append(measured_bubble(spans))
            print(f"step {step}: loss {loss:.4f}, bubble {bubbles[-1]:.1%}", flush=True)
    return {
        "loss": losses,
        "step_seconds": median(seconds[TRACED:]),
        "bubble": median(bubbles[TRACED:]),
        "bubbles": bubbles[TRACED:],
        "expected_bubble": expected_bubble(len(stages), m),
        "held": [stage.most_held for stage in stages],
    }


def batches(batch: int) -> tf.data.Dataset:
    """Return batches of digits without end."""
    images, labels = load_digits(return_X_y=True)
    digits = tf.data.Dataset.from_tensor_slices(((images / 16).astype("float32"), labels))
    return digits.shuffle(len(labels), seed=0).repeat().batch(batch)
