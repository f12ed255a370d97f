"""Training of two replicas in one process, the second of which gets NaN in its batch 7; it is measured.

lost_gradients.py fit|loop|sparse|compiled|scaled|all FILE

TF_USE_LEGACY_KERAS selects tf_keras. `sparse` has an embedding and float16, `scaled` skips what is not finite, as the
gradients of the batches 4 to 6 are, in `compiled` XLA compiles the gradients, and in `all` both replicas get NaN.
"""

import sys
from typing import Any

import numpy as np
import tensorflow as tf
from tfscale.trainer.measure import measure

how, file = sys.argv[1:]
AT, STEPS, BATCH = 7, 40, 8
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
keras = tf.keras

inputs = np.ones((STEPS, 2, BATCH, 4), np.float32)
if how == "scaled":
    inputs[3:6] = 1e30
else:
    inputs[AT - 1, 0 if how == "all" else 1 :] = np.nan
data = tf.data.Dataset.from_tensor_slices((inputs.reshape(-1, 4), np.ones((inputs.size // 4, 2), np.float32)))
data = data.batch(2 * BATCH)


def fit() -> None:
    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(3, name="first"), keras.layers.Dense(2, name="second")])
        model.compile(keras.optimizers.SGD(0.01), "mse")
    model.fit(data, verbose=0)


def loop() -> None:
    kind = tf.float16 if how == "sparse" else tf.float32
    with strategy.scope():
        rows = tf.Variable(tf.ones((5, 4), kind), name="rows")
        weights = tf.Variable(tf.ones((4, 2), kind), name="weights")
        variables = [weights, rows] if how == "sparse" else [weights]
        optimizer = keras.optimizers.SGD(0.01)
        optimizer.build(variables)

    @tf.function(jit_compile=how == "compiled")
    def gradients_of(x: Any, y: Any) -> list[Any]:
        with tf.GradientTape() as tape:
            made = tf.cast(x, kind)
            made = made + tf.nn.embedding_lookup(rows, tf.cast(y[:, 0], tf.int32)) if how == "sparse" else made
            loss = tf.reduce_mean((made @ weights) ** 2)
        found: list[Any] = tape.gradient(loss, variables)
        return found

    def replica_step(x: Any, y: Any) -> None:
        gradients = gradients_of(x, y) if how == "compiled" else gradients_of.python_function(x, y)
        if how == "scaled":
            (reduced,) = tf.distribute.get_replica_context().all_reduce("sum", gradients)
            weights.assign_sub(tf.where(tf.math.is_finite(reduced), 0.01 * reduced, 0.0))
            return
        optimizer.apply_gradients(zip(gradients, variables, strict=True))

    @tf.function
    def step(batch: Any) -> None:
        strategy.run(replica_step, args=batch)

    for batch in strategy.experimental_distribute_dataset(data):
        step(batch)


with measure(file):
    fit() if how in ("fit", "all") else loop()
