"""Accidents of a task: each one happens once a file of this name in $ACCIDENTS holds its word.

The file is named after the task, `worker-1`. A program asks at places where such a thing happens in real programs.
"""

import json
import os
import threading
import time
from pathlib import Path

import tensorflow as tf

TASK = json.loads(os.environ["TF_CONFIG"])["task"]
STEP = float(os.environ.get("STEP", "0.08"))
"""Seconds that the layers of this task take in a step, beside what they compute."""
READ = float(os.environ.get("READ", "0.3"))
"""Seconds that a slow disk takes for a batch: none are lost where steps, with others on the cores, take longer."""
_ORDER = Path(os.environ["ACCIDENTS"]) / f"{TASK['type']}-{TASK['index']}"


def ordered() -> str:
    """Return the word of the accident that is on now; empty where there is none."""
    try:
        return _ORDER.read_text()
    except OSError:
        return ""


def in_input() -> bool:
    """Do what may happen to whoever reads the data; return True where there is no more of it."""
    match ordered():
        case "deadlock":
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()
        case "hanging disk":
            Path(os.environ["PIPE"]).read_bytes()
        case "slow disk":
            time.sleep(READ)
        case "no data":
            return True
    return False


def after_step() -> None:
    """Do what may happen to the program between two steps."""
    match ordered():
        case "exception":
            raise KeyError("labels")
        case "memory":
            kept = []
            while True:
                kept.append(bytearray(os.urandom(1 << 20)) * 16)
        case "garbage":
            _every(10.0, 3.0)
        case "thrash":
            _read_again()


def _every(period: float, pause: float) -> None:
    """Sleep `pause` seconds once in a period."""
    if time.time() % period < STEP + 0.1:
        time.sleep(pause)


def _read_again() -> None:
    """Read a file for which the memory that this process may have is too small, so that it comes from the disk."""
    with Path(os.environ["LARGE"]).open("rb") as large:
        while large.read(1 << 20):
            pass


def asleep(tensor: tf.Tensor) -> tf.Tensor:
    """Return the tensor after the sleep of a step, which takes no CPU from the other tasks of this machine."""
    sleeping = tf.raw_ops.SleepDataset(
        input_dataset=tf.data.Dataset.range(1)._variant_tensor,
        # The data set is asked twice, for its element and for its end.
        sleep_microseconds=tf.constant(int(STEP * 5e5), tf.int64),
        output_types=[tf.int64],
        output_shapes=[[]],
    )
    woken = tf.raw_ops.DatasetToSingleElement(dataset=sleeping, output_types=[tf.int64], output_shapes=[[]])
    with tf.control_dependencies([woken] if isinstance(woken, tf.Tensor) else list(woken)):
        return tf.identity(tensor)
