"""Training with parameter servers that goes on from its checkpoint; each epoch is a line of the chief's file."""

import os
import sys
import time
from pathlib import Path

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import tensorflow as tf

FOLDER, EPOCHS, SECONDS = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
STEPS = 20

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    )
    server.join()
    sys.exit("a server's join never returns")

strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


def dataset(_=None):
    return tf.data.Dataset.from_tensors((tf.ones((16, 8)), tf.zeros((16, 4)))).repeat()


with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(4, use_bias=False)])
    optimizer = tf.keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)
    epochs = tf.Variable(0, trainable=False)
checkpoints = tf.train.CheckpointManager(
    tf.train.Checkpoint(model=model, optimizer=optimizer, epochs=epochs), str(FOLDER / "backup"), max_to_keep=2
)
checkpoints.restore_or_initialize()


@tf.function
def step(iterator):
    def replica(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return strategy.run(replica, args=next(iterator))


iterator = iter(coordinator.create_per_worker_dataset(dataset))
for epoch in range(int(epochs.numpy()), EPOCHS):
    for _ in range(STEPS):
        coordinator.schedule(step, args=(iterator,))
    coordinator.join()
    epochs.assign(epoch + 1)
    checkpoints.save()
    with (FOLDER / "chief-0.epochs").open("a") as file:
        file.write(f"{os.getpid()} {epoch}\n")
    time.sleep(SECONDS)
