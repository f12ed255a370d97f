"""Parts that the programs of this folder share. Each program is a function, run by `python inputs.py NAME`.

A program trains STEPS steps and returns its numbers, which must be those of stock TensorFlow, and how many steps it
made by its own count. It calls `late()` where a slowed worker loses its time.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

STEPS = int(os.environ.get("STEPS", "30"))
BATCH = 16


def program(**_facts: Any) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Mark a program. The facts are read from the source, by `program_kinds.py`, which explains them."""
    return lambda function: function


def index() -> int:
    """Return the place of this worker, 0 where there is no cluster."""
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    return int(config.get("task", {}).get("index", 0))


def late() -> None:
    """Lose the time that the slowed worker loses in a step."""
    if index() == 1:
        time.sleep(float(os.environ.get("SLOW", "0")))


def arrays(examples: int = STEPS * BATCH) -> tuple[Any, Any]:
    """Return inputs of 8 numbers and a number to learn from each, the same in every process."""
    import numpy as np

    x = np.random.default_rng(1).random((examples, 8), np.float32)
    return x, x.sum(axis=1, keepdims=True)


def model() -> Any:
    """Return a small model of the Keras that TensorFlow brings, with the same weights in every process."""
    import tensorflow as tf

    tf.keras.utils.set_random_seed(1)
    layers = tf.keras.layers
    return tf.keras.Sequential([layers.Input((8,)), layers.Dense(16, activation="relu"), layers.Dense(1)])


def compiled(**compiling: Any) -> Any:
    """Return the small model, compiled for regression."""
    made = model()
    made.compile(**{"optimizer": "sgd", "loss": "mse", **compiling})
    return made


def batches(examples: int = STEPS * BATCH) -> Any:
    """Return the arrays as a data set of batches."""
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(arrays(examples)).batch(BATCH)


def slowly(data: Any) -> Any:
    """Return the batches of a data set, each of which the slowed worker reads late."""
    import tensorflow as tf

    def read(x: Any) -> Any:
        late()
        return x

    def as_read(x: Any, y: Any) -> Any:
        found = tf.numpy_function(read, [x], tf.float32)
        found.set_shape(x.shape)
        return found, y

    return data.map(as_read)


def learn(network: Any, optimizer: Any, x: Any, y: Any) -> Any:
    """Make a step of a hand-written loop; return its loss."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((network(x, training=True) - y) ** 2)
    gradients = tape.gradient(loss, network.trainable_variables)
    # AutoGraph of TensorFlow 2.12 knows no `strict`.
    optimizer.apply_gradients(zip(gradients, network.trainable_variables))  # noqa: B905
    return loss


def told(numbers: Any, steps: int | list[int] | None = STEPS) -> dict[str, Any]:
    """Return what a program reports: its numbers, and its own count of steps, or one for each process that trains."""
    return {"numbers": [float(number) for number in numbers], "steps": steps}


def report(result: dict[str, Any]) -> None:
    """Print what a program reports; a program that does not return calls it itself."""
    print("result", json.dumps(result), flush=True)


def main() -> None:
    """Run the program that the command line names, and print what it reports."""
    report(sys._getframe(1).f_globals[sys.argv[1]]())
