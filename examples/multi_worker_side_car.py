"""MultiWorkerMirroredStrategy with a SidecarEvaluator, which evaluates each checkpoint in a task of its own."""

import json
import os

import numpy as np
import tensorflow as tf

EPOCHS = 3
checkpoints = os.environ["CHECKPOINTS"]  # a folder that all tasks share
task = json.loads(os.environ["TF_CONFIG"])["task"]
random = np.random.default_rng(1)
x = random.normal(size=(2048, 16)).astype("float32")
y = x[:, :4].argmax(axis=1)


def make_model():
    model = tf.keras.Sequential(
        [tf.keras.Input((16,)), tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(4)]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    return model


if task["type"] == "evaluator":
    model = make_model()
    data = tf.data.Dataset.from_tensor_slices((x[1536:], y[1536:])).batch(64)
    evaluator = tf.keras.utils.SidecarEvaluator(model, data, checkpoints, max_evaluations=EPOCHS)
    evaluator.start()
    print("final loss", model.evaluate(data, verbose=0)[0])
else:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = make_model()
    # Every worker takes part in saving; only the chief's checkpoint is kept where the evaluator looks.
    folder = checkpoints if task["index"] == 0 else f"{checkpoints}-of-worker-{task['index']}"
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=model), folder, max_to_keep=EPOCHS)
    save = tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: manager.save())
    dataset = tf.data.Dataset.from_tensor_slices((x[:1536], y[:1536])).shuffle(1536, seed=1).repeat().batch(64)
    history = model.fit(dataset, epochs=EPOCHS, steps_per_epoch=24, callbacks=[save], verbose=2)
    print("final loss", history.history["loss"][-1])
