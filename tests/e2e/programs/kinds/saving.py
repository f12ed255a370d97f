"""Ways in which a program saves, and goes on from what it saved."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf
from program import STEPS, arrays, batches, compiled, learn, main, model, program, told

callbacks = tf.keras.callbacks


def _fit(network, *more, epochs=2):
    return network.fit(batches(), epochs=epochs, verbose=0, callbacks=[*more]).history["loss"]


def _without(folder):
    """Remove files whose names are made of times and host names."""
    for path in Path(folder).rglob("*"):
        if path.is_file():
            path.unlink()


@program()
def best_model():
    network = compiled()
    losses = _fit(network, callbacks.ModelCheckpoint("best.keras", "loss", save_best_only=True))
    again = tf.keras.models.load_model("best.keras")
    return told([*losses, again.evaluate(*arrays(64), verbose=0)], 2 * STEPS)


@program(quick=False)
def checkpoint_in_every_format():
    names = ["{epoch}.keras", "{epoch}.h5", "{epoch}.weights.h5"]
    saves = [callbacks.ModelCheckpoint(name, save_weights_only="weights" in name) for name in names]
    return told(_fit(compiled(), *saves), 2 * STEPS)


@program(quick=False)
def checkpoint_every_ten_batches():
    return told(_fit(compiled(), callbacks.ModelCheckpoint("{batch}.keras", save_freq=10), epochs=1))


@program()
def backup_and_restore():
    """Break off a fit, and go on from its backup by a second one."""

    class Break(callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 1:
                raise RuntimeError("as if preempted")

    network = compiled()
    try:
        _fit(network, callbacks.BackupAndRestore("backup"), Break(), epochs=3)
    except RuntimeError as error:
        print("broken off:", error)
    return told(_fit(compiled(), callbacks.BackupAndRestore("backup"), epochs=3), 3 * STEPS)


@program(quick=False)
def log_as_csv():
    return told(_fit(compiled(), callbacks.CSVLogger("log.csv")), 2 * STEPS)


@program(quick=False)
def tensorboard():
    losses = _fit(compiled(), callbacks.TensorBoard("logs", histogram_freq=1, profile_batch=0))
    _without("logs")
    return told(losses, 2 * STEPS)


@program(quick=False)
def tensorboard_with_a_profile():
    losses = _fit(compiled(), callbacks.TensorBoard("logs", profile_batch=(5, 10)))
    _without("logs")
    return told(losses, 2 * STEPS)


@program(quick=False)
def summaries_of_a_loop():
    network, optimizer = model(), tf.keras.optimizers.SGD(0.01)
    step = tf.function(lambda x, y: learn(network, optimizer, x, y))
    losses = []
    with tf.summary.create_file_writer("logs").as_default():
        for number, (x, y) in enumerate(batches()):
            losses.append(float(step(x, y)))
            tf.summary.scalar("loss", losses[-1], step=number)
    _without("logs")
    return told(losses)


@program(quick=False)
def checkpoint_manager():
    network, optimizer, number = model(), tf.keras.optimizers.Adam(0.01), tf.Variable(0)
    step = tf.function(lambda x, y: learn(network, optimizer, x, y))
    checkpoint = tf.train.Checkpoint(model=network, optimizer=optimizer, number=number)
    manager = tf.train.CheckpointManager(checkpoint, "checkpoints", max_to_keep=2)
    losses = []
    for x, y in batches():
        losses.append(float(step(x, y)))
        if int(number.assign_add(1)) % 10 == 0:
            manager.save()
    checkpoint.restore(manager.checkpoints[0])
    return told([*losses, float(number)])


@program(quick=False)
def iterator_in_the_checkpoint():
    network, optimizer = model(), tf.keras.optimizers.SGD(0.01)
    step = tf.function(lambda x, y: learn(network, optimizer, x, y))
    source = iter(batches().repeat())
    checkpoint = tf.train.Checkpoint(source=source)
    first = [float(step(*next(source))) for _ in range(10)]
    path = checkpoint.write("at-ten")
    between = [float(step(*next(source))) for _ in range(5)]
    checkpoint.read(path)
    return told(first + between + [float(step(*next(source))) for _ in range(10)], 25)


@program(quick=False)
def saved_model_loaded_and_called():
    network = compiled()
    losses = _fit(network)
    tf.saved_model.save(network, "saved")
    serve = tf.saved_model.load("saved").signatures["serving_default"]
    x = tf.constant(arrays(8)[0])
    made = next(iter(serve(**dict.fromkeys(serve.structured_input_signature[1], x)).values()))
    return told([*losses, float(tf.reduce_sum(made))], 2 * STEPS)


@program(quick=False)
def exported_for_serving():
    network = compiled()
    losses = _fit(network)
    network.export("exported")
    loaded = tf.saved_model.load("exported")
    made = loaded.serve(arrays(8)[0])
    return told([*losses, float(tf.reduce_sum(made))], 2 * STEPS)


@program(quick=False)
def step_exported_and_trained_from_the_file():
    """Save a module with its training step as a SavedModel, load it, and train by the loaded step."""

    class Learner(tf.Module):
        def __init__(self):
            super().__init__()
            self.kernel = tf.Variable(tf.zeros((8, 1)))

        @tf.function(input_signature=[tf.TensorSpec((None, 8)), tf.TensorSpec((None, 1))])
        def learn(self, x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((x @ self.kernel - y) ** 2)
            self.kernel.assign_sub(0.05 * tape.gradient(loss, self.kernel))
            return loss

    tf.saved_model.save(Learner(), "learner")
    losses = _fit(compiled())
    loaded = tf.saved_model.load("learner")
    return told(losses + [float(loaded.learn(x, y)) for x, y in batches()], 2 * STEPS)


@program(quick=False)
def weights_carried_over():
    first, second = compiled(), compiled()
    losses = _fit(first)
    first.save_weights("first.weights.h5")
    second.load_weights("first.weights.h5")
    third = tf.keras.models.clone_model(first)
    third.set_weights(second.get_weights())
    third.compile("sgd", "mse")
    return told(losses + _fit(second) + _fit(third), 6 * STEPS)


@program(quick=False)
def loaded_with_its_optimizer():
    """Save a compiled model in the middle, load it, and go on."""
    network = compiled(optimizer="adam")
    losses = _fit(network)
    network.save("middle.keras")
    return told(losses + _fit(tf.keras.models.load_model("middle.keras")), 4 * STEPS)


@program(quick=False)
def model_as_json():
    network = compiled()
    losses = _fit(network)
    Path("model.json").write_text(network.to_json())
    again = tf.keras.models.model_from_json(Path("model.json").read_text())
    again.compile("sgd", "mse")
    again.set_weights(network.get_weights())
    return told(losses + _fit(again), 4 * STEPS)


if __name__ == "__main__":
    main()
