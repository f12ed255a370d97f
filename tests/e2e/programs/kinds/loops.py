"""Loops that a person writes, without `fit`."""

from __future__ import annotations

import tensorflow as tf
from program import BATCH, STEPS, arrays, compiled, late, main, model, program, told


@program(workers=2, slow="host", unknown=("input", "compute"))
def arrays_into_a_step():
    """Hand NumPy arrays to a `tf.function` on each worker; no tf.data is in it."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    x, y = arrays()
    with strategy.scope():
        network, optimizer = model(), tf.keras.optimizers.SGD(0.01)

    @tf.function
    def step(x, y):
        def one(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((network(x, training=True) - y) ** 2)
            gradients = tape.gradient(loss, network.trainable_variables)
            optimizer.apply_gradients(zip(gradients, network.trainable_variables, strict=True))
            return loss

        return strategy.reduce("MEAN", strategy.run(one, (x, y)), None)

    losses = []
    for number in range(STEPS):
        late()
        rows = slice(number * BATCH, (number + 1) * BATCH)
        losses.append(float(step(tf.constant(x[rows]), tf.constant(y[rows]))))
    return told(losses)


@program()
def train_on_batch():
    network = compiled()
    x, y = arrays()
    return told([network.train_on_batch(x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, len(x), BATCH)])


if __name__ == "__main__":
    main()
