"""Programs in which training is a part: tuning, folds, fine-tuning, reinforcement, scikit-learn around it."""

from __future__ import annotations

import gc

import numpy as np
import tensorflow as tf
from program import BATCH, STEPS, arrays, batches, compiled, learn, main, model, program, told

layers = tf.keras.layers


@program()
def two_hundred_short_fits():
    x, y = arrays(BATCH * 2)
    network = compiled()
    losses = [network.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0).history["loss"][0] for _ in range(200)]
    return told(losses, 400)


@program(quick=False)
def grid_of_models():
    """Make a model for each choice, and clear the session between them."""
    best = []
    for rate in (0.001, 0.01):
        for units in (4, 8, 16):
            tf.keras.backend.clear_session()
            tf.keras.utils.set_random_seed(1)
            network = tf.keras.Sequential([layers.Input((8,)), layers.Dense(units, "relu"), layers.Dense(1)])
            network.compile(tf.keras.optimizers.Adam(rate), "mse")
            best.append(network.fit(batches(160), epochs=2, verbose=0).history["loss"][-1])
            del network
            gc.collect()
    return told(best, 6 * 2 * 10)


@program(quick=False)
def folds():
    from sklearn.model_selection import KFold

    x, y = arrays()
    scores = []
    for train, test in KFold(5).split(x):
        network = compiled()
        network.fit(x[train], y[train], batch_size=BATCH, shuffle=False, verbose=0)
        scores.append(network.evaluate(x[test], y[test], verbose=0))
    return told(scores, 5 * -(-int(len(x) * 0.8) // BATCH))


@program(quick=False)
def estimator_of_scikit_learn():
    """Put a Keras model into scikit-learn's pipeline, in a class with `fit` and `predict`."""
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    class Network(RegressorMixin, BaseEstimator):
        def fit(self, x, y):
            self.network_ = compiled()
            self.network_.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0)
            return self

        def predict(self, x):
            return self.network_.predict(x, verbose=0)[:, 0]

    x, y = arrays()
    pipeline = make_pipeline(StandardScaler(), Network()).fit(x, y)
    return told([pipeline.score(x, y[:, 0])])


@program()
def fine_tuned():
    """Train, freeze the body under a new head, train the head, then all of it slowly."""
    x, y = arrays()
    network = compiled()
    losses = network.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0).history["loss"]
    body = tf.keras.Sequential(network.layers[:-1])
    body.trainable = False
    inputs = layers.Input((8,))
    tuned = tf.keras.Model(inputs, layers.Dense(1)(body(inputs, training=False)))
    for rate in (0.01, 0.001):
        tuned.compile(tf.keras.optimizers.Adam(rate), "mse")
        losses += tuned.fit(x, -y, batch_size=BATCH, shuffle=False, verbose=0).history["loss"]
        body.trainable = True
    return told(losses, 3 * STEPS)


@program(quick=False)
def features_of_a_frozen_body():
    """Predict features once, and train a small model on them."""
    x, y = arrays()
    body = tf.keras.Sequential(model().layers[:-1])
    features = body.predict(x, batch_size=64, verbose=0)
    head = tf.keras.Sequential([layers.Input((16,)), layers.Dense(1, kernel_initializer="ones")])
    head.compile("sgd", "mse")
    return told(head.fit(features, y, batch_size=BATCH, shuffle=False, verbose=0).history["loss"])


@program(quick=False)
def agent_that_learns_by_predicting():
    """Q-learning as in most tutorials: predict in each move, and fit one batch of memories after it."""
    random, network = np.random.default_rng(1), compiled(optimizer="adam")
    state, memory, losses = random.random(8, "float32"), [], []
    for _ in range(STEPS):
        value = float(network.predict(state[None], verbose=0)[0, 0])
        after = random.random(8, "float32")
        memory.append((state, value * 0.9 + after.sum()))
        state = after
        x, y = zip(*memory[-BATCH:], strict=True)
        history = network.fit(np.array(x), np.array(y), batch_size=BATCH, shuffle=False, verbose=0)
        losses.append(history.history["loss"][0])
    return told(losses)


@program(quick=False)
def policy_gradients():
    """Play an episode with the network, then learn from all of it in one step."""
    tf.keras.utils.set_random_seed(1)
    policy = tf.keras.Sequential([layers.Input((4,)), layers.Dense(8, "tanh"), layers.Dense(2)])
    optimizer, random = tf.keras.optimizers.Adam(0.01), np.random.default_rng(1)

    @tf.function(reduce_retracing=True)
    def step(states, actions, gains):
        with tf.GradientTape() as tape:
            surprise = tf.nn.sparse_softmax_cross_entropy_with_logits(actions, policy(states))
            loss = tf.reduce_mean(surprise * gains)
        found = tape.gradient(loss, policy.trainable_variables)
        optimizer.apply_gradients(zip(found, policy.trainable_variables, strict=True))
        return loss

    losses = []
    for episode in range(STEPS):
        states = random.random((5 + episode % 3, 4), "float32")
        actions = [int(np.argmax(policy(state[None])[0])) for state in states]
        losses.append(float(step(states, actions, states.sum(axis=1))))
    return told(losses)


@program(quick=False)
def teacher_and_student():
    teacher, student, optimizer = compiled(), model(), tf.keras.optimizers.SGD(0.01)
    losses = teacher.fit(batches(), verbose=0).history["loss"]

    @tf.function
    def step(x):
        return learn(student, optimizer, x, tf.stop_gradient(teacher(x, training=False)))

    return told(losses + [float(step(x)) for x, _ in batches()], 2 * STEPS)


@program(quick=False)
def learned_while_it_serves():
    """Small models in turn, each trained for one batch when its data comes."""
    networks = [compiled() for _ in range(3)]
    losses = [float(np.ravel(networks[n % 3].train_on_batch(x, y))[0]) for n, (x, y) in enumerate(batches())]
    return told(losses)


@program(quick=False)
def ensemble():
    networks = [compiled(optimizer=name) for name in ("sgd", "adam", "rmsprop")]
    x, y = arrays()
    for network in networks:
        network.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0)
    mean = np.mean([network.predict(x, verbose=0) for network in networks], axis=0)
    return told([float(np.mean((mean - y) ** 2))], 3 * STEPS)


@program(quick=False)
def grown_batch_size():
    x, y = arrays()
    network = compiled()
    history = [network.fit(x, y, batch_size=size, shuffle=False, verbose=0).history["loss"][0] for size in (8, 16, 32)]
    return told(history, len(x) // 8 + len(x) // 16 + len(x) // 32)


if __name__ == "__main__":
    main()
