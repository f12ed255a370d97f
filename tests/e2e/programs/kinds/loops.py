"""Loops that a person writes, without `fit`."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from program import BATCH, STEPS, arrays, batches, compiled, learn, main, model, program, told


def _parts():
    return model(), tf.keras.optimizers.SGD(0.01)


@program()
def train_on_batch():
    network = compiled()
    x, y = arrays()
    losses = [network.train_on_batch(x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, len(x), BATCH)]
    return told([float(np.ravel(loss)[0]) for loss in losses])


@program()
def eager_loop():
    network, optimizer = _parts()
    return told([float(learn(network, optimizer, x, y)) for x, y in batches()])


@program()
def traced_step():
    network, optimizer = _parts()
    step = tf.function(lambda x, y: learn(network, optimizer, x, y))
    return told([float(step(x, y)) for _ in range(3) for x, y in batches()], 3 * STEPS)


@program(unknown=("host", "input", "compute"), quick=False)
def whole_epoch_traced():
    """`for batch in dataset` inside of a function, as the documentation of tf.function advises."""
    network, optimizer = _parts()

    @tf.function
    def epoch(data):
        total = tf.constant(0.0)
        for x, y in data:
            total += learn(network, optimizer, x, y)
        return total / STEPS

    return told([float(epoch(batches())) for _ in range(3)], 3 * STEPS)


@program(quick=False)
def steps_of_an_iterator_traced():
    network, optimizer = _parts()

    @tf.function
    def some(source):
        total = tf.constant(0.0)
        for _ in tf.range(10):
            x, y = next(source)
            total += learn(network, optimizer, x, y)
        return total

    source = iter(batches().repeat())
    return told([float(some(source)) for _ in range(3)], 30)


@program(quick=False)
def unrolled_steps_traced():
    """Ten steps in a Python loop, which AutoGraph unrolls."""
    network, optimizer = _parts()

    @tf.function
    def ten(source):
        return [learn(network, optimizer, *next(source)) for _ in range(10)][-1]

    source = iter(batches().repeat())
    return told([float(ten(source)) for _ in range(3)], 30)


@program(quick=False)
def batches_that_come_as_optionals():
    """Read the first batch as ever, and the others as Keras 3.16 does in `fit`."""
    network, optimizer = _parts()
    step = tf.function(lambda x, y: learn(network, optimizer, x, y))
    source = iter(batches())
    losses = [float(step(*next(source)))]
    while (found := source.get_next_as_optional()).has_value():
        losses.append(float(step(*found.get_value())))
    return told(losses)


@program(quick=False)
def functions_in_functions():
    network, optimizer = _parts()
    error = tf.function(lambda x, y: tf.reduce_mean((network(x, training=True) - y) ** 2))

    @tf.function
    def gradients(x, y):
        with tf.GradientTape() as tape:
            loss = error(x, y)
        return loss, tape.gradient(loss, network.trainable_variables)

    @tf.function
    def step(x, y):
        loss, found = gradients(x, y)
        optimizer.apply_gradients(zip(found, network.trainable_variables, strict=True))
        return loss

    return told([float(step(x, y)) for x, y in batches()])


@program(quick=False)
def gradients_traced_and_applied_in_eager_code():
    network, optimizer = _parts()

    @tf.function
    def gradients(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((network(x, training=True) - y) ** 2)
        return loss, tape.gradient(loss, network.trainable_variables)

    losses = []
    for x, y in batches():
        loss, found = gradients(x, y)
        optimizer.apply_gradients(zip(found, network.trainable_variables, strict=True))
        losses.append(float(loss))
    return told(losses)


@program(unknown=("update", "compute"))
def compiled_by_xla():
    network, optimizer = _parts()
    optimizer.build(network.trainable_variables)
    step = tf.function(lambda x, y: learn(network, optimizer, x, y), jit_compile=True)
    return told([float(step(x, y)) for x, y in batches()])


@program(quick=False)
def retraced_at_every_step():
    """Hand over a Python number, of which each value makes a function of its own."""
    network, optimizer = _parts()
    step = tf.function(lambda x, y, number: learn(network, optimizer, x, y) + 0 * number)
    return told([float(step(x, y, number)) for number, (x, y) in enumerate(batches())])


@program(quick=False)
def batches_of_many_sizes():
    network, optimizer = _parts()
    step = tf.function(lambda x, y: learn(network, optimizer, x, y), reduce_retracing=True)
    x, y = arrays()
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH, drop_remainder=False)
    return told([float(step(x[: 1 + i % BATCH], y[: 1 + i % BATCH])) for i, (x, y) in enumerate(data)])


@program(quick=False)
def functions_run_eagerly():
    tf.config.run_functions_eagerly(True)
    network, optimizer = _parts()
    step = tf.function(lambda x, y: learn(network, optimizer, x, y))
    return told([float(step(x, y)) for x, y in batches()])


@program()
def adversaries():
    """Train a GAN: discriminator and generator in one traced step, an optimizer each."""
    tf.keras.utils.set_random_seed(1)
    layers = tf.keras.layers
    maker = tf.keras.Sequential([layers.Input((4,)), layers.Dense(16, "relu"), layers.Dense(8)])
    judge = tf.keras.Sequential([layers.Input((8,)), layers.Dense(16, "relu"), layers.Dense(1)])
    ours, theirs = tf.keras.optimizers.Adam(0.001), tf.keras.optimizers.Adam(0.001)
    cross = tf.keras.losses.BinaryCrossentropy(from_logits=True)

    @tf.function
    def step(x, noise):
        with tf.GradientTape() as making, tf.GradientTape() as judging:
            true, made = judge(x, training=True), judge(maker(noise, training=True), training=True)
            good, bad = tf.ones_like(true), tf.zeros_like(made)
            fooled, wrong = cross(good, made), cross(good, true) + cross(bad, made)
        pairs = zip(making.gradient(fooled, maker.trainable_variables), maker.trainable_variables, strict=True)
        ours.apply_gradients(pairs)
        pairs = zip(judging.gradient(wrong, judge.trainable_variables), judge.trainable_variables, strict=True)
        theirs.apply_gradients(pairs)
        return wrong

    noise = tf.random.stateless_normal((BATCH, 4), (1, 2))
    return told([float(step(x, noise)) for x, _ in batches()])


@program(quick=False)
def metrics_and_validation_each_epoch():
    network, optimizer = _parts()
    mean, checked = tf.keras.metrics.Mean(), tf.keras.metrics.MeanAbsoluteError()

    @tf.function
    def step(x, y):
        mean.update_state(learn(network, optimizer, x, y))

    @tf.function
    def check(x, y):
        checked.update_state(y, network(x, training=False))

    numbers = []
    for _ in range(3):
        for x, y in batches():
            step(x, y)
        for x, y in batches().take(5):
            check(x, y)
        numbers += [float(mean.result()), float(checked.result())]
        mean.reset_state()
        checked.reset_state()
    return told(numbers, 3 * STEPS)


@program(quick=False)
def model_as_a_module():
    """Weights in a tf.Module, trained by an optimizer of Keras."""

    class Linear(tf.Module):
        def __init__(self):
            super().__init__()
            self.kernel, self.bias = tf.Variable(tf.zeros((8, 1))), tf.Variable(tf.zeros((1,)))

        def __call__(self, x, training=False):
            return x @ self.kernel + self.bias

    network, optimizer = Linear(), tf.keras.optimizers.SGD(0.05)
    step = tf.function(lambda x, y: learn(network, optimizer, x, y))
    return told([float(step(x, y)) for x, y in batches()])


@program(quick=False)
def loss_chosen_by_a_condition():
    network, optimizer = _parts()

    @tf.function
    def step(x, y, number):
        with tf.GradientTape() as tape:
            error = network(x, training=True) - y
            loss = tf.cond(number % 2 == 0, lambda: tf.reduce_mean(error**2), lambda: tf.reduce_mean(tf.abs(error)))
        found = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(found, network.trainable_variables, strict=True))
        return loss

    return told([float(step(x, y, tf.constant(number))) for number, (x, y) in enumerate(batches())])


@program(quick=False)
def update_under_a_condition():
    """Apply gradients only if they are finite, inside of tf.cond."""
    network, optimizer = _parts()
    optimizer.build(network.trainable_variables)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((network(x, training=True) - y) ** 2)
        found = tape.gradient(loss, network.trainable_variables)
        if tf.math.is_finite(loss):
            optimizer.apply_gradients(zip(found, network.trainable_variables, strict=True))
        return loss

    return told([float(step(x, y)) for x, y in batches()])


if __name__ == "__main__":
    main()
