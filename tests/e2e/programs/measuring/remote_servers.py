"""Program that connects TensorFlow to a server which somebody else has started, and trains on it."""

from __future__ import annotations

import subprocess
import sys

import tensorflow as tf

SERVER = """
import sys, tensorflow as tf
server = tf.distribute.Server({"worker": ["localhost:0"]}, job_name="worker", task_index=0)
print(server.target, flush=True)
server.join()
"""


def main() -> None:
    # `-I` as on another host: no probe is there.
    command = [sys.executable, "-I", "-c", SERVER]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        train(server.stdout.readline().strip().removeprefix("grpc://"), reads_there=sys.argv[1] == "data")
    finally:
        server.kill()


def train(address: str, *, reads_there: bool) -> None:
    tf.config.experimental_connect_to_host(address)
    with tf.device("/job:worker/replica:0/task:0/device:CPU:0"):
        weights = tf.Variable(tf.zeros((8, 1)))
        optimizer = tf.keras.optimizers.SGD(0.1)
        source = iter(tf.data.Dataset.range(100).map(lambda i: tf.ones((16, 8)) * tf.cast(i, tf.float32) / 100))

        @tf.function
        def step(x: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((x @ weights - 1.0) ** 2)
            optimizer.apply_gradients(zip(tape.gradient(loss, [weights]), [weights], strict=True))
            return loss

        for number in range(40):
            loss = step(next(source) if reads_there else tf.ones((16, 8)) * number / 100)
    print(f"loss {float(loss):.9g}")


main()
