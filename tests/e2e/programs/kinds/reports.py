"""Callbacks, progress bars, logs: what a program tells while it trains."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path

import numpy as np
import tensorflow as tf
from program import STEPS, arrays, batches, compiled, learn, main, model, program, told

callbacks = tf.keras.callbacks


def _fit(*more, epochs=2, verbose=0, **compiling):
    history = compiled(**compiling).fit(batches(), epochs=epochs, verbose=verbose, callbacks=[*more])
    return told(history.history["loss"], epochs * STEPS)


@program(quick=False)
def one_line_an_epoch():
    return _fit(verbose=2)


@program(quick=False)
def progress_bar():
    """Keras's bar, which writes its line again and again."""
    tf.keras.utils.enable_interactive_logging()
    return _fit(verbose=1, metrics=["mae"])


@program(quick=False)
def bar_of_ones_own():
    network, optimizer = model(), tf.keras.optimizers.SGD(0.01)
    step = tf.function(lambda x, y: learn(network, optimizer, x, y))
    bar, losses = tf.keras.utils.Progbar(STEPS, verbose=2, stateful_metrics=["loss"]), []
    for number, (x, y) in enumerate(batches()):
        losses.append(float(step(x, y)))
        bar.update(number + 1, [("loss", losses[-1])])
    return told(losses)


@program(quick=False)
def small_functions_as_callbacks():
    seen = []
    log = callbacks.LambdaCallback(
        on_train_begin=lambda logs: print("begins"),
        on_epoch_end=lambda epoch, logs: print("epoch", epoch, f"{logs['loss']:.3f}"),
        on_train_batch_end=lambda batch, logs: seen.append(batch),
        on_train_end=lambda logs: print("ends", len(seen)),
    )
    return _fit(log)


@program(quick=False)
def learning_rate_by_a_callback():
    return _fit(callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5), optimizer="adam", epochs=3)


@program(quick=False)
def rate_reduced_on_a_plateau():
    return _fit(callbacks.ReduceLROnPlateau("loss", patience=0, min_delta=1e9), epochs=3)


@program(quick=False)
def callback_that_sleeps():
    class Sleeps(callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            time.sleep(0.02)

    return _fit(Sleeps(), epochs=1)


@program(quick=False)
def callback_that_evaluates():
    class Score(callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            x, y = arrays(64)
            logs["score"] = float(np.mean(np.abs(self.model.predict(x, verbose=0) - y)))

    return _fit(Score())


@program(quick=False)
def callback_that_sets_the_rate_each_batch():
    class Warm(callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            self.model.optimizer.learning_rate = 0.01 * min(1.0, (batch + 1) / 10)

    return _fit(Warm())


@program(quick=False)
def callback_that_reads_weights():
    sizes = []

    class Norms(callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            sizes.append(float(np.linalg.norm(self.model.get_weights()[0])))

    result = _fit(Norms())
    return told(result["numbers"] + sizes[::10], 2 * STEPS)


@program(quick=False)
def callback_that_stops_the_training():
    trained = []

    class Enough(callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            trained.append(batch)
            if batch == 14:
                self.model.stop_training = True

    history = compiled().fit(batches(), epochs=3, verbose=0, callbacks=[Enough()]).history
    return told(history["loss"], len(trained))


@program(quick=False)
def stops_when_not_a_number():
    trained = []
    count = callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: trained.append(batch))
    history = compiled(optimizer=tf.keras.optimizers.SGD(1e20)).fit(
        batches(), epochs=3, verbose=0, callbacks=[count, callbacks.TerminateOnNaN()]
    )
    return told([float(len(history.history["loss"]))], len(trained))


@program(quick=False)
def lines_of_json():
    with Path("log.jsonl").open("w") as log:
        write = callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: print(json.dumps({"epoch": epoch, "loss": logs["loss"]}), file=log)
        )
        return _fit(write)


@program(quick=False)
def logging_of_python():
    logging.basicConfig(filename="train.log", level=logging.DEBUG)
    log = logging.getLogger(__name__)
    return _fit(callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: log.info("epoch %d %s", epoch, logs)))


@program(quick=False)
def printed_from_the_graph():
    network, optimizer = model(), tf.keras.optimizers.SGD(0.01)

    @tf.function
    def step(x, y):
        loss = learn(network, optimizer, x, y)
        tf.print("loss", loss)
        return loss

    return told([float(step(x, y)) for x, y in batches()])


@program(quick=False)
def pictures_of_the_model():
    network = compiled()
    network.summary()
    return told(network.fit(batches(), verbose=0).history["loss"])


if __name__ == "__main__":
    main()
