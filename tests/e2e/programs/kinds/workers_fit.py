"""`fit` on two workers under MultiWorkerMirroredStrategy. Stock Keras 3 refuses it; the repairs let it run."""

from __future__ import annotations

import sys

import tensorflow as tf
from program import BATCH, STEPS, arrays, batches, compiled, index, late, main, model, program, report, slowly, told

callbacks = tf.keras.callbacks


def _compiled(make=compiled, **compiling):
    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        return make(**compiling)


@program(workers=2, slow="host", repaired=True)
def fit_on_two_workers():
    slow = callbacks.LambdaCallback(on_train_batch_begin=lambda batch, logs: late())
    return told(_compiled().fit(batches(), verbose=0, callbacks=[slow]).history["loss"])


@program(workers=2, slow="input", repaired=True, quick=False)
def fit_with_a_slow_reader():
    return told(_compiled().fit(slowly(batches()), verbose=0).history["loss"])


@program(workers=2, repaired=True, quick=False)
def fit_arrays_on_two_workers():
    x, y = arrays()
    network = _compiled(metrics=["mae"])
    return told(network.fit(x, y, batch_size=BATCH, shuffle=False, epochs=2, verbose=0).history["mae"], 2 * STEPS)


@program(workers=2, repaired=True, quick=False)
def validation_on_two_workers():
    network = _compiled(metrics=["mae"])
    history = network.fit(batches(), validation_data=batches(64), epochs=3, verbose=0).history
    return told(history["loss"] + history["val_mae"], 3 * STEPS)


@program(workers=2, repaired=True, quick=False)
def several_steps_an_execution_on_two_workers():
    history = _compiled(steps_per_execution=5).fit(batches(), epochs=2, verbose=0).history
    return told(history["loss"], 2 * STEPS)


@program(workers=2, repaired=True, quick=False)
def evaluated_and_predicted_on_two_workers():
    network, (x, _) = _compiled(), arrays(64)
    losses = network.fit(batches(), verbose=0).history["loss"]
    numbers = [network.evaluate(batches(64), verbose=0), float(network.predict(x, batch_size=16, verbose=0).sum())]
    return told([*losses, *numbers])


@program(workers=2, repaired=True, quick=False)
def repeated_on_two_workers():
    compiled = _compiled()
    return told(compiled.fit(batches().repeat(), epochs=3, steps_per_epoch=STEPS, verbose=0).history["loss"], 3 * STEPS)


@program(workers=2, repaired=True)
def model_checkpoints_of_two_workers():
    """Save into one folder from both workers, as most people write it first."""
    save = callbacks.ModelCheckpoint("best.keras", "loss", save_best_only=True)
    return told(_compiled().fit(batches(), epochs=2, verbose=0, callbacks=[save]).history["loss"], 2 * STEPS)


@program(workers=2, repaired=True, quick=False)
def weights_saved_by_two_workers():
    save = callbacks.ModelCheckpoint("{epoch}.weights.h5", save_weights_only=True)
    return told(_compiled().fit(batches(), epochs=2, verbose=0, callbacks=[save]).history["loss"], 2 * STEPS)


@program(workers=2, repaired=True, quick=False)
def backup_of_two_workers():
    backup = callbacks.BackupAndRestore("backup")
    return told(_compiled().fit(batches(), epochs=2, verbose=0, callbacks=[backup]).history["loss"], 2 * STEPS)


@program(workers=2, repaired=True, quick=False)
def logs_of_the_chief_alone():
    chief = [callbacks.CSVLogger("log.csv")] if index() == 0 else []
    return told(_compiled().fit(batches(), epochs=2, verbose=0, callbacks=chief).history["loss"], 2 * STEPS)


@program(workers=2, repaired=True, exit=3, quick=False)
def both_exit_with_a_status():
    losses = _compiled().fit(batches(), verbose=0).history["loss"]
    report(told(losses))
    sys.exit(3)


@program(workers=2, repaired=True, quick=False)
def mixed_precision_on_two_workers():
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    return told(_compiled(optimizer="adam").fit(batches(), epochs=2, verbose=0).history["loss"], 2 * STEPS)


@program(workers=2, repaired=True, quick=False)
def batch_statistics_of_all_workers():
    def normal(**compiling):
        tf.keras.utils.set_random_seed(1)
        layers = tf.keras.layers
        network = tf.keras.Sequential([layers.Input((8,)), layers.Dense(8)])
        network.add(layers.BatchNormalization(synchronized=True))
        network.add(layers.Dense(1))
        network.compile("sgd", "mse", **compiling)
        return network

    return told(_compiled(normal).fit(batches(), epochs=2, verbose=0).history["loss"], 2 * STEPS)


@program(workers=2, repaired=True, slow="host", quick=False)
def own_train_step_on_two_workers():
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

    def made(**compiling):
        network = Own()
        network.compile("sgd", **compiling)
        return network

    slow = callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: late())
    return told(_compiled(made).fit(batches(), verbose=0, callbacks=[slow]).history["own"])


if __name__ == "__main__":
    main()
