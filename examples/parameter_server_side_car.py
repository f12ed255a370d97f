"""ParameterServerStrategy: a side-car evaluator evaluates each checkpoint of the training, in a task of its own."""

import os

import numpy as np
import tensorflow as tf

EPOCHS = 4
checkpoints = os.environ["CHECKPOINTS"]  # a folder that all tasks share
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


def evaluate():
    """Wait for each checkpoint, and evaluate it, until the last one has come."""
    model = make_model()
    checkpoint = tf.train.Checkpoint(model=model)
    loss = None
    for path in tf.train.checkpoints_iterator(checkpoints, min_interval_secs=0, timeout=120):
        checkpoint.restore(path).expect_partial()
        loss, accuracy = model.evaluate(x[1536:], y[1536:], verbose=0)
        print(f"evaluated {os.path.basename(path)}: loss {loss:.4f}, accuracy {accuracy:.4f}", flush=True)
        if path.endswith(f"-{EPOCHS}"):
            break
    return loss


def train(cluster_resolver):
    strategy = tf.distribute.ParameterServerStrategy(cluster_resolver)
    with strategy.scope():
        model = make_model()
        manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=model), checkpoints, max_to_keep=EPOCHS)
    save = tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: manager.save())
    dataset = tf.data.Dataset.from_tensor_slices((x[:1536], y[:1536])).shuffle(1536).repeat().batch(64)
    history = model.fit(dataset, epochs=EPOCHS, steps_per_epoch=24, callbacks=[save], verbose=2)
    return history.history["loss"][-1]


cluster_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if cluster_resolver.task_type == "evaluator":
    print("final loss", evaluate())
elif cluster_resolver.task_type == "chief":
    print("final loss", train(cluster_resolver))
else:
    tf.distribute.Server(
        cluster_resolver.cluster_spec(), cluster_resolver.task_type, cluster_resolver.task_id, protocol="grpc"
    ).join()
