"""Training as people write it: a loop of `schedule` and `join` under ParameterServerStrategy, until it is ended."""

import os
import sys

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import accidents
import tensorflow as tf

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
    return tf.data.Dataset.from_tensors((tf.ones((16, 64)), tf.zeros((16, 64)))).repeat()


with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((64,)), tf.keras.layers.Dense(64, use_bias=False)])
    optimizer = tf.keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)


@tf.function
def step(iterator):
    def replica(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(accidents.asleep(x), training=True) - y) ** 2)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return strategy.run(replica, args=next(iterator))


iterator = iter(coordinator.create_per_worker_dataset(dataset))
while True:
    for _ in range(100):
        coordinator.schedule(step, args=(iterator,))
    coordinator.join()
    accidents.after_step()
