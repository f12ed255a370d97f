"""Ways in which people call `fit`, `evaluate` and `predict`, one after the other and in one another."""

from __future__ import annotations

import threading

import numpy as np
import tensorflow as tf
from program import BATCH, STEPS, arrays, batches, compiled, main, model, program, told

callbacks = tf.keras.callbacks


@program(quick=False)
def several_fits():
    network = compiled()
    return told([network.fit(batches(), verbose=0).history["loss"][0] for _ in range(4)], 4 * STEPS)


@program(quick=False)
def validation_while_fitting():
    network = compiled(metrics=["mae"])
    history = network.fit(batches(), validation_data=arrays(64), epochs=3, verbose=0).history
    return told(history["loss"] + history["val_mae"], 3 * STEPS)


@program(quick=False)
def split_for_validation():
    x, y = arrays()
    history = compiled().fit(x, y, batch_size=BATCH, validation_split=0.2, shuffle=False, epochs=2, verbose=0).history
    return told(history["loss"] + history["val_loss"], 2 * -(-int(len(x) * 0.8) // BATCH))


@program()
def evaluate_and_predict_between_epochs():
    network, (x, y) = compiled(), arrays()
    numbers = []
    for epoch in range(3):
        network.fit(batches(), initial_epoch=epoch, epochs=epoch + 1, verbose=0)
        numbers += [network.evaluate(x, y, verbose=0), float(network.predict(x[:8], verbose=0).mean())]
    return told(numbers, 3 * STEPS)


@program()
def several_steps_an_execution():
    return told(compiled(steps_per_execution=5).fit(batches(), epochs=2, verbose=0).history["loss"], 2 * STEPS)


@program(unknown=("update", "compute"))
def compiled_by_xla_in_fit():
    return told(compiled(jit_compile=True).fit(batches(), verbose=0).history["loss"])


@program(quick=False)
def fit_run_eagerly():
    return told(compiled(run_eagerly=True).fit(batches(), verbose=0).history["loss"])


@program(quick=False)
def stopped_early():
    x, y = arrays()
    stop = callbacks.EarlyStopping("loss", patience=0, min_delta=1e9, restore_best_weights=True)
    history = compiled().fit(x, y, batch_size=BATCH, shuffle=False, epochs=50, verbose=0, callbacks=[stop]).history
    return told(history["loss"], len(history["loss"]) * STEPS)


@program()
def own_train_step():
    class Own(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.network = model()

        def call(self, x, training=False):
            return self.network(x, training=training)

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self(x, training=True) - y) ** 2)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"own": loss}

    network = Own()
    network.compile("sgd")
    return told(network.fit(batches(), epochs=2, verbose=0).history["own"], 2 * STEPS)


@program(quick=False)
def train_step_with_two_optimizers():
    """Train the GAN of Keras's guide: a model whose `compile` takes two optimizers."""
    layers = tf.keras.layers
    tf.keras.utils.set_random_seed(1)

    class Adversaries(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.maker = tf.keras.Sequential([layers.Input((4,)), layers.Dense(16, "relu"), layers.Dense(8)])
            self.judge = tf.keras.Sequential([layers.Input((8,)), layers.Dense(16, "relu"), layers.Dense(1)])

        def compile(self, ours, theirs):
            super().compile()
            self.ours, self.theirs = ours, theirs

        def train_step(self, x):
            noise = tf.ones((tf.shape(x)[0], 4))
            with tf.GradientTape() as tape:
                wrong = tf.reduce_mean(self.judge(self.maker(noise)) ** 2) + tf.reduce_mean((self.judge(x) - 1) ** 2)
            found = tape.gradient(wrong, self.judge.trainable_weights)
            self.theirs.apply_gradients(zip(found, self.judge.trainable_weights, strict=True))
            with tf.GradientTape() as tape:
                fooled = tf.reduce_mean((self.judge(self.maker(noise)) - 1) ** 2)
            found = tape.gradient(fooled, self.maker.trainable_weights)
            self.ours.apply_gradients(zip(found, self.maker.trainable_weights, strict=True))
            return {"wrong": wrong, "fooled": fooled}

    network = Adversaries()
    network.compile(tf.keras.optimizers.Adam(0.001), tf.keras.optimizers.Adam(0.001))
    history = network.fit(batches().map(lambda x, y: x), epochs=2, verbose=0).history
    return told(history["wrong"] + history["fooled"], 2 * STEPS)


@program(quick=False)
def own_test_and_predict_step():
    class Own(tf.keras.Sequential):
        def test_step(self, data):
            x, y = data
            return {"worst": tf.reduce_max(tf.abs(self(x, training=False) - y))}

        def predict_step(self, data):
            return self(data, training=False) * 2

    layers = tf.keras.layers
    tf.keras.utils.set_random_seed(1)
    network = Own([layers.Input((8,)), layers.Dense(1)])
    network.compile("sgd", "mse")
    losses = network.fit(batches(), epochs=2, verbose=0).history["loss"]
    worst = network.evaluate(batches(), verbose=0, return_dict=True)["worst"]
    return told([*losses, worst, network.predict(arrays(8)[0], verbose=0).sum()], 2 * STEPS)


@program()
def fits_in_threads():
    """Train two models at once, a thread each."""
    numbers = [0.0, 0.0]
    networks = [compiled(), compiled()]

    def train(place):
        x, y = arrays()
        history = networks[place].fit(x, y, batch_size=BATCH, shuffle=False, verbose=0)
        numbers[place] = history.history["loss"][0]

    threads = [threading.Thread(target=train, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told(numbers, 2 * STEPS)


@program(quick=False)
def fit_in_a_thread_of_its_own():
    found = []
    thread = threading.Thread(target=lambda: found.append(compiled().fit(batches(), epochs=2, verbose=0)))
    thread.start()
    thread.join()
    return told(found[0].history["loss"], 2 * STEPS)


@program(quick=False)
def fit_inside_of_a_callback():
    """Train a second model at each epoch's end, from a callback of the first."""
    second = compiled()
    train = callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: second.fit(batches().take(10), verbose=0))
    history = compiled().fit(batches(), epochs=2, verbose=0, callbacks=[train]).history
    return told(history["loss"], 2 * STEPS + 2 * 10)


@program(quick=False)
def only_evaluated():
    """Train nothing: no steps."""
    network, (x, y) = compiled(), arrays()
    return told([network.evaluate(x, y, verbose=0), float(network.predict(x, verbose=0).sum())], 0)


@program(quick=False)
def one_step_alone():
    x, y = arrays(BATCH)
    return told(compiled().fit(x, y, batch_size=BATCH, verbose=0).history["loss"], 1)


@program(quick=False)
def many_metrics():
    y = (arrays()[1] > 4).astype("float32")
    metrics = ["accuracy", tf.keras.metrics.AUC(), tf.keras.metrics.Precision(), tf.keras.metrics.Recall()]
    tf.keras.utils.set_random_seed(1)
    layers = tf.keras.layers
    network = tf.keras.Sequential([layers.Input((8,)), layers.Dense(1, "sigmoid")])
    network.compile("adam", "binary_crossentropy", metrics=metrics)
    history = network.fit(arrays()[0], y, batch_size=BATCH, shuffle=False, epochs=2, verbose=0).history
    return told(np.ravel([*history.values()]), 2 * STEPS)


@program(quick=False)
def compiled_anew_between_fits():
    network, losses = compiled(), []
    for rate in (0.02, 0.01, 0.005):
        network.compile(tf.keras.optimizers.SGD(rate), "mae")
        losses += network.fit(batches(), verbose=0).history["loss"]
    return told(losses, 3 * STEPS)


@program(quick=False)
def interrupted_and_gone_on():
    """Stop a fit by an exception of a callback, catch it, and fit again."""
    network, (x, y) = compiled(), arrays()

    class Break(callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 9:
                raise KeyboardInterrupt

    try:
        network.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=[Break()])
    except KeyboardInterrupt:
        print("interrupted, saves and goes on")
    return told(network.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0).history["loss"], 10 + STEPS)


if __name__ == "__main__":
    main()
