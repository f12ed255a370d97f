"""Ways in which gradients come about: tapes, gradients of one's own, loops and maps in the graph."""

from __future__ import annotations

import tensorflow as tf
from program import BATCH, STEPS, batches, main, model, program, told


def _trained(gradients, epochs=1):
    """Train the small model by gradients of its own; return the losses."""
    network, optimizer = model(), tf.keras.optimizers.SGD(0.01)

    @tf.function
    def step(x, y):
        loss, found = gradients(network, x, y)
        optimizer.apply_gradients(zip(found, network.trainable_variables, strict=True))
        return loss

    return [float(step(x, y)) for _ in range(epochs) for x, y in batches()]


def _error(network, x, y):
    return tf.reduce_mean((network(x, training=True) - y) ** 2)


@program(quick=False)
def persistent_tape():
    def both(network, x, y):
        with tf.GradientTape(persistent=True) as tape:
            loss = _error(network, x, y)
            size = tf.add_n([tf.nn.l2_loss(each) for each in network.trainable_variables])
        first, second = (tape.gradient(each, network.trainable_variables) for each in (loss, size))
        return loss, [a + 1e-3 * b for a, b in zip(first, second, strict=True)]

    return told(_trained(both))


@program(quick=False)
def gradient_of_a_gradient():
    """Add the penalty of a WGAN: how steep the network is in its inputs."""

    def penal(network, x, y):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(x)
                made = network(x, training=True)
            steep = tf.sqrt(tf.reduce_sum(inner.gradient(made, x) ** 2, axis=1) + 1e-6)
            loss = tf.reduce_mean((made - y) ** 2) + tf.reduce_mean((steep - 1.0) ** 2)
        found = outer.gradient(loss, network.trainable_variables, unconnected_gradients="zero")
        return loss, found

    return told(_trained(penal))


@program(quick=False)
def gradient_of_ones_own():
    @tf.custom_gradient
    def clipped(x):
        return x, lambda upstream: tf.clip_by_norm(upstream, 1.0)

    def through(network, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((clipped(network(x, training=True)) - y) ** 2)
        return loss, tape.gradient(loss, network.trainable_variables)

    return told(_trained(through))


@program(quick=False)
def mapped_over_examples():
    """Gradients of each example, clipped one by one, as in private training."""

    def each(network, x, y):
        with tf.GradientTape() as tape:
            losses = tf.reduce_mean((network(x, training=True) - y) ** 2, axis=1)
        jacobians = tape.jacobian(losses, network.trainable_variables)
        return tf.reduce_mean(losses), [tf.reduce_mean(tf.clip_by_value(j, -5.0, 5.0), axis=0) for j in jacobians]

    return told(_trained(each))


@program(quick=False)
def vectorized_map():
    def mapped(network, x, y):
        with tf.GradientTape() as tape:
            made = network(x, training=True)
            losses = tf.vectorized_map(lambda pair: tf.reduce_sum((pair[0] - pair[1]) ** 2), (made, y))
            loss = tf.reduce_mean(losses)
        return loss, tape.gradient(loss, network.trainable_variables)

    return told(_trained(mapped))


@program(quick=False)
def through_a_while_loop():
    """Unrolled by tf.while_loop in the graph, and differentiated."""

    def unrolled(network, x, y):
        with tf.GradientTape() as tape:
            state = tf.zeros((BATCH, 1))
            _, state = tf.while_loop(
                lambda i, _: i < 3, lambda i, s: (i + 1, 0.5 * s + network(x, training=True)), (0, state)
            )
            loss = tf.reduce_mean((state - y) ** 2)
        return loss, tape.gradient(loss, network.trainable_variables)

    return told(_trained(unrolled))


@program(quick=False)
def recomputed_when_needed():
    """tf.recompute_grad saves memory by computing a block twice."""
    tf.keras.utils.set_random_seed(1)
    kernel = tf.Variable(tf.random.stateless_normal((8, 8), (1, 2)))
    head, optimizer = tf.Variable(tf.ones((8, 1))), tf.keras.optimizers.SGD(0.001)
    block = tf.recompute_grad(lambda x: tf.nn.relu(x @ kernel))

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((block(x) @ head - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, [kernel, head]), [kernel, head], strict=True))
        return loss

    return told([float(step(x, y)) for x, y in batches()])


@program(quick=False)
def stopped_target():
    """Learn from a slowly following copy of the network, as in self-supervised training."""
    target = model()

    def follow(network, x, y):
        with tf.GradientTape() as tape:
            made = network(x, training=True)
            loss = tf.reduce_mean((made - y) ** 2) + tf.reduce_mean((made - tf.stop_gradient(target(x))) ** 2)
        for slow, fast in zip(target.trainable_variables, network.trainable_variables, strict=True):
            slow.assign(0.9 * slow + 0.1 * fast)
        return loss, tape.gradient(loss, network.trainable_variables)

    return told(_trained(follow))


@program(quick=False)
def two_steps_each_batch():
    """Sharpness-aware: climb, take the gradient there, come back, and apply it."""

    def sharp(network, x, y):
        weights = network.trainable_variables
        with tf.GradientTape() as tape:
            loss = _error(network, x, y)
        found = tape.gradient(loss, weights)
        scale = 0.05 / (tf.linalg.global_norm(found) + 1e-12)
        for weight, gradient in zip(weights, found, strict=True):
            weight.assign_add(gradient * scale)
        with tf.GradientTape() as tape:
            there = _error(network, x, y)
        better = tape.gradient(there, weights)
        for weight, gradient in zip(weights, found, strict=True):
            weight.assign_sub(gradient * scale)
        return loss, better

    return told(_trained(sharp))


@program(quick=False)
def steps_inside_of_a_step():
    """Meta-learning: an inner step by hand, an outer one by an optimizer, on weights that are passed on."""
    kernel, optimizer = tf.Variable(tf.zeros((8, 1))), tf.keras.optimizers.SGD(0.05)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                loss = tf.reduce_mean((x @ kernel - y) ** 2)
            adapted = kernel - 0.01 * inner.gradient(loss, kernel)
            after = tf.reduce_mean((x @ adapted - y) ** 2)
        optimizer.apply_gradients([(outer.gradient(after, kernel), kernel)])
        return after

    return told([float(step(x, y)) for _ in range(2) for x, y in batches()], 2 * STEPS)


if __name__ == "__main__":
    main()
