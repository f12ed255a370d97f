"""Programs of version 1, of DTensor, and of what TensorFlow no longer has."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from program import BATCH, STEPS, arrays, batches, compiled, main, program, told

v1 = tf.compat.v1


def _rows(step):
    x, y = arrays()
    return x[step * BATCH : (step + 1) * BATCH], y[step * BATCH : (step + 1) * BATCH]


@program(keras=("none",), said="not measured", quick=False)
def session_of_version_1():
    with tf.Graph().as_default(), v1.Session() as session:
        x, y = v1.placeholder(tf.float32, (None, 8)), v1.placeholder(tf.float32, (None, 1))
        kernel = v1.get_variable("kernel", (8, 1), initializer=v1.zeros_initializer())
        loss = tf.reduce_mean((x @ kernel - y) ** 2)
        train = v1.train.GradientDescentOptimizer(0.05).minimize(loss)
        session.run(v1.global_variables_initializer())
        return told(
            [session.run([loss, train], dict(zip((x, y), _rows(n), strict=True)))[0] for n in range(STEPS)], None
        )


@program(keras=("none",), said="not measured", quick=False)
def monitored_session():
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        data = v1.data.make_one_shot_iterator(batches().repeat())
        x, y = data.get_next()
        kernel = v1.get_variable("kernel", (8, 1), initializer=v1.zeros_initializer())
        loss = tf.reduce_mean((x @ kernel - y) ** 2)
        train = v1.train.AdamOptimizer(0.05).minimize(loss, global_step=step)
        hooks, losses = [v1.train.StopAtStepHook(last_step=STEPS)], []
        with v1.train.MonitoredTrainingSession(hooks=hooks) as session:
            while not session.should_stop():
                losses.append(session.run([loss, train])[0])
    return told(losses, None)


@program(keras=("tf_keras",), said="not measured", quick=False)
def fit_without_eager_code():
    """tf_keras can still train in graphs of version 1."""
    v1.disable_eager_execution()
    network = compiled()
    return told(network.fit(*arrays(), batch_size=BATCH, shuffle=False, verbose=0).history["loss"], None)


@program(keras=("none",), said="not measured", quick=False)
def mesh_of_dtensor():
    from tensorflow.experimental import dtensor

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    mesh = dtensor.create_mesh([("batch", 2)], devices=["CPU:0", "CPU:1"])
    kernel = dtensor.DVariable(
        dtensor.call_with_layout(tf.zeros, dtensor.Layout.replicated(mesh, 2), shape=(8, 1), dtype=tf.float32)
    )

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ kernel - y) ** 2)
        kernel.assign_sub(0.05 * tape.gradient(loss, kernel))
        return loss

    layout, losses = dtensor.Layout.batch_sharded(mesh, "batch", rank=2), []
    for number in range(STEPS):
        parts = [[tf.constant(half) for half in np.split(each, 2)] for each in _rows(number)]
        losses.append(float(step(*(dtensor.pack(each, layout) for each in parts))))
    return told(losses, None)


@program(quick=False)
def estimator_that_is_gone():
    """Ask for tf.estimator, catch its absence, and train by Keras."""
    try:
        tf.estimator.RunConfig()
    except AttributeError:
        print("no estimator")
    return told(compiled().fit(batches(), epochs=2, verbose=0).history["loss"], 2 * STEPS)


@program(quick=False)
def graph_mode_beside_eager_code():
    """Compute something in a session of version 1, and train by `fit` in the same process."""
    with tf.Graph().as_default(), v1.Session() as session:
        mean = float(session.run(tf.reduce_mean(tf.constant(arrays()[0]))))
    return told([mean, *compiled().fit(batches(), epochs=2, verbose=0).history["loss"]], 2 * STEPS)


@program(quick=False)
def wrapped_function_of_version_1():
    """Wrap a function that was written for version 1, in the pipeline."""
    scale = v1.wrap_function(lambda x: x * v1.constant(2.0), [tf.TensorSpec((None, 8), tf.float32)])
    data = batches().map(lambda x, y: (scale(x), y))
    return told(compiled().fit(data, epochs=2, verbose=0).history["loss"], 2 * STEPS)


if __name__ == "__main__":
    main()
