"""Ways in which weights are updated: optimizers, schedules, clipping, averages, precision."""

from __future__ import annotations

import tensorflow as tf
from program import BATCH, STEPS, arrays, batches, compiled, learn, main, model, program, told

optimizers = tf.keras.optimizers


def _fit(optimizer):
    return compiled(optimizer=optimizer).fit(batches(), verbose=0).history["loss"]


def _loop(optimizer):
    network = model()
    step = tf.function(lambda x, y: learn(network, optimizer, x, y))
    return [float(step(x, y)) for x, y in batches()]


@program()
def adam():
    return told(_fit(optimizers.Adam(0.01)))


@program(quick=False)
def momentum_and_nesterov():
    return told(_fit(optimizers.SGD(0.01, momentum=0.9, nesterov=True)))


@program(quick=False)
def each_of_many():
    makers = [optimizers.RMSprop, optimizers.Adagrad, optimizers.Adadelta, optimizers.Adamax, optimizers.Nadam]
    losses = [loss for make in makers for loss in _fit(make(0.01))]
    return told(losses, len(makers) * STEPS)


@program(quick=False)
def ftrl():
    return told(_fit(optimizers.Ftrl(0.05)))


@program(quick=False)
def clipped_by_the_optimizer():
    return told(_fit(optimizers.SGD(0.01, clipnorm=0.5)) + _fit(optimizers.Adam(global_clipnorm=1.0)), 2 * STEPS)


@program(quick=False)
def clipped_by_hand():
    network, optimizer = model(), optimizers.Adam(0.01)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((network(x, training=True) - y) ** 2)
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, network.trainable_variables), 1.0)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables, strict=True))
        return loss

    return told([float(step(x, y)) for x, y in batches()])


@program()
def schedule():
    decay = optimizers.schedules.CosineDecay(0.05, STEPS)
    steps = optimizers.schedules.PiecewiseConstantDecay([10, 20], [0.05, 0.01, 0.001])
    return told(_fit(optimizers.SGD(decay)) + _fit(optimizers.Adam(steps)), 2 * STEPS)


@program(quick=False)
def own_schedule_with_warm_up():
    class WarmUp(optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            return 0.05 * tf.minimum(1.0, (tf.cast(step, tf.float32) + 1.0) / 10.0)

    return told(_fit(optimizers.SGD(WarmUp())))


@program(quick=False)
def weight_decay():
    return told(_fit(optimizers.AdamW(0.01, weight_decay=0.01)))


@program(quick=False)
def moving_average_of_weights():
    return told(_fit(optimizers.SGD(0.01, use_ema=True, ema_momentum=0.9)))


@program(keras=("keras 3",), quick=False)
def accumulation_by_keras():
    """Keras's own accumulation: an update after each fourth batch."""
    return told(_fit(optimizers.SGD(0.01, gradient_accumulation_steps=4)), STEPS // 4)


@program(quick=False)
def accumulation_by_hand():
    """Add up the gradients of three batches in variables, and apply them."""
    network, optimizer, every = model(), optimizers.SGD(0.01), 3
    sums = [tf.Variable(tf.zeros_like(each)) for each in network.trainable_variables]

    @tf.function
    def add(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((network(x, training=True) - y) ** 2) / every
        for total, gradient in zip(sums, tape.gradient(loss, network.trainable_variables), strict=True):
            total.assign_add(gradient)
        return loss

    @tf.function
    def apply():
        optimizer.apply_gradients(zip(sums, network.trainable_variables, strict=True))
        for total in sums:
            total.assign(tf.zeros_like(total))

    losses = []
    for number, (x, y) in enumerate(batches()):
        losses.append(float(add(x, y)))
        if (number + 1) % every == 0:
            apply()
    return told(losses, STEPS // every)


@program()
def mixed_precision():
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    return told(_fit("adam"))


@program(quick=False)
def mixed_precision_with_loss_scale():
    """Skip the updates of batches that overflow; they are no steps."""
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    optimizer = optimizers.SGD(0.01)
    return told(_fit(tf.keras.mixed_precision.LossScaleOptimizer(optimizer)), int(optimizer.iterations))


@program(quick=False)
def double_precision():
    tf.keras.backend.set_floatx("float64")
    return told(_fit(optimizers.SGD(0.01)))


@program(quick=False)
def learning_rate_set_between_epochs():
    network = compiled(optimizer=optimizers.SGD(0.02))
    losses = []
    for epoch in range(3):
        network.optimizer.learning_rate = 0.02 / (epoch + 1)
        losses += network.fit(batches(), verbose=0).history["loss"]
    return told(losses, 3 * STEPS)


@program(quick=False)
def constant_rate_in_a_loop():
    return told(_loop(optimizers.SGD(0.001)))


@program()
def two_optimizers():
    """Train the first layer by one optimizer and the last by another, in one traced step."""
    network, first, last = model(), optimizers.Adam(0.01), optimizers.SGD(0.01)
    head, body = network.layers[-1].trainable_variables, network.layers[-2].trainable_variables

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((network(x, training=True) - y) ** 2)
        gradients = tape.gradient(loss, [*body, *head])
        first.apply_gradients(zip(gradients[: len(body)], body, strict=True))
        last.apply_gradients(zip(gradients[len(body) :], head, strict=True))
        return loss

    return told([float(step(x, y)) for x, y in batches()])


@program(quick=False)
def own_optimizer_class():
    class Halving(optimizers.SGD):
        def apply_gradients(self, pairs, **others):
            return super().apply_gradients([(gradient / 2, weight) for gradient, weight in pairs], **others)

    return told(_loop(Halving(0.02)))


@program(said="not measured", keras=("none",))
def weights_subtracted_by_hand():
    """Change weights without any optimizer, which is not seen, as the documentation says."""
    kernel = tf.Variable(tf.zeros((8, 1)))

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ kernel - y) ** 2)
        kernel.assign_sub(0.05 * tape.gradient(loss, kernel))
        return loss

    return told([float(step(x, y)) for _ in range(10) for x, y in batches()], None)


@program(said="not measured", keras=("none",), quick=False)
def optimizer_of_version_1():
    """Apply an optimizer of tf.compat.v1 in eager code, which is none of Keras's."""
    kernel, optimizer = tf.Variable(tf.zeros((8, 1))), tf.compat.v1.train.GradientDescentOptimizer(0.05)

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ kernel - y) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, kernel), kernel)])
        return loss

    return told([float(step(x, y)) for _ in range(10) for x, y in batches()], None)


@program(quick=False)
def legacy_names_of_optimizers():
    """Ask for optimizers by name and by configuration."""
    names = [optimizers.get("rmsprop"), optimizers.get({"class_name": "SGD", "config": {"learning_rate": 0.01}})]
    return told([loss for each in names for loss in _fit(each)], 2 * STEPS)


@program(quick=False)
def frozen_then_all_weights():
    x, y = arrays()
    network = compiled(optimizer=optimizers.Adam(0.01))
    network.layers[-2].trainable = False
    network.compile(optimizers.Adam(0.01), "mse")
    first = network.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0).history["loss"]
    network.layers[-2].trainable = True
    network.compile(optimizers.Adam(0.001), "mse")
    return told(first + network.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0).history["loss"], 2 * STEPS)


if __name__ == "__main__":
    main()
