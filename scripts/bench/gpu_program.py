"""Program of `scripts/gpu_check`: trains one model on one device, and prints what it measured of itself.

python gpu_program.py STEPS [WIDTH] [--delay MS] [--policy NAME] [--fit] [--growth | --limit MIB]
"""

from __future__ import annotations

import argparse
import json
import time

import tensorflow as tf

_BATCH, _LAYERS = 512, 6


def main() -> None:
    """Train, and print seconds a step and the bytes that TensorFlow has taken."""
    chosen = _arguments()
    _configure(chosen)
    if chosen.policy:
        tf.keras.mixed_precision.set_global_policy(chosen.policy)
    seconds = _fit(chosen) if chosen.fit else _loop(chosen)
    taken = tf.config.experimental.get_memory_info("GPU:0")["peak"] if tf.config.list_logical_devices("GPU") else 0
    print("measured", json.dumps({"step": seconds, "peak": taken}), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("steps", type=int)
    parser.add_argument("width", type=int, nargs="?", default=1024)
    parser.add_argument("--delay", type=float, default=0.0, metavar="MS", help="more work on the device in each step")
    parser.add_argument("--policy")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--limit", type=int, metavar="MIB")
    return parser.parse_args()


def _configure(chosen: argparse.Namespace) -> None:
    for gpu in tf.config.list_physical_devices("GPU"):
        if chosen.growth:
            tf.config.experimental.set_memory_growth(gpu, True)
        if chosen.limit:
            limit = tf.config.LogicalDeviceConfiguration(memory_limit=chosen.limit)
            tf.config.set_logical_device_configuration(gpu, [limit])


def _model(width: int) -> tf.keras.Model:
    layers = [tf.keras.layers.Dense(width, activation="relu") for _ in range(_LAYERS)]
    return tf.keras.Sequential([tf.keras.layers.Input((width,)), *layers, tf.keras.layers.Dense(1, dtype="float32")])


def _data(width: int) -> tf.data.Dataset:
    batch = tf.random.normal([_BATCH, width]), tf.random.normal([_BATCH, 1])
    return tf.data.Dataset.from_tensors(batch).repeat()


def _fit(chosen: argparse.Namespace) -> float:
    model = _model(chosen.width)
    model.compile("sgd", "mse")
    model.fit(_data(chosen.width), steps_per_epoch=10, verbose=0)
    begin = time.perf_counter()
    model.fit(_data(chosen.width), steps_per_epoch=chosen.steps, verbose=0)
    return (time.perf_counter() - begin) / chosen.steps


def _loop(chosen: argparse.Namespace) -> float:
    model, optimizer = _model(chosen.width), tf.keras.optimizers.SGD(0.001)
    repeats = _repeats(chosen.delay)
    square = tf.random.normal([_SIDE, _SIDE])

    @tf.function
    def step(iterator):
        x, y = next(iterator)
        # Too small to change the batch, but the model waits for it.
        x += 1e-30 * _busy(square, repeats)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.cast(model(x, training=True), tf.float32) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    iterator = iter(_data(chosen.width))
    for _ in range(5):
        step(iterator).numpy()
    begin = time.perf_counter()
    for _ in range(chosen.steps):
        loss = step(iterator)
    loss.numpy()
    return (time.perf_counter() - begin) / chosen.steps


_SIDE = 1024


@tf.function
def _busy(square: tf.Tensor, repeats: tf.Tensor) -> tf.Tensor:
    """Multiply matrices, one after another."""
    for _ in tf.range(repeats):
        square = tf.linalg.l2_normalize(square @ square, axis=1)
    return tf.stop_gradient(tf.reduce_sum(square))


def _repeats(milliseconds: float) -> tf.Tensor:
    """Return how many multiplications take so long on this device."""
    if not milliseconds:
        return tf.constant(0)
    square, times = tf.random.normal([_SIDE, _SIDE]), []
    for _ in range(5):
        begin = time.perf_counter()
        _busy(square, tf.constant(100)).numpy()
        times.append((time.perf_counter() - begin) / 100)
    return tf.constant(max(1, round(milliseconds * 1e-3 / min(times))))


if __name__ == "__main__":
    main()
