"""Training in one of several styles, which knows nothing of what is set from outside, and tells what it got."""

import sys

import numpy as np
import tensorflow as tf

style = sys.argv[1]
if style == "servers":
    tasks = tf.train.ClusterSpec({"worker": [sys.argv[2]], "ps": [sys.argv[3]]})
    servers = [tf.distribute.Server(tasks, job_name=role, task_index=0) for role in ("worker", "ps")]
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(tasks, rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
if style == "distributed":  # before the first op
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
x = np.random.default_rng(0).normal(size=(640, 8)).astype("float32")
y = x.argmax(axis=1)
data = tf.data.Dataset.from_tensor_slices((x, y)).map(lambda image, label: (image * 2, label)).batch(32)


def built():
    model = tf.keras.Sequential([tf.keras.layers.Dense(8)])
    model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


if style == "fit":
    model = built()
    model.fit(data, validation_data=data.prefetch(2), verbose=2)
    print("replicas", model.distribute_strategy.num_replicas_in_sync)
elif style == "prefetched fit":
    with tf.distribute.MirroredStrategy().scope():
        model = built()
    model.fit(data.prefetch(2).repeat(2), verbose=2)
elif style == "servers":
    with strategy.scope():
        model = built()
    model.fit(data, steps_per_epoch=20, verbose=2)
elif style == "loop":
    model, optimizer = built(), tf.keras.optimizers.SGD()
    for images, labels in data:
        with tf.GradientTape() as tape:
            loss = model.compute_loss(y=labels, y_pred=model(images))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    print("batches from", type(iter(data)._dataset).__name__, "of", [type(each).__name__ for each in data._inputs()])
elif style == "distributed":
    reduced = tf.function(lambda: tf.distribute.get_replica_context().all_reduce("SUM", [tf.fill([3], 1.001)]))
    print("sum", float(strategy.experimental_local_results(strategy.run(reduced))[0][0][0]))
    images = [image for image, _ in strategy.experimental_distribute_dataset(data)]
    print("examples", sum(len(each) for image in images for each in strategy.experimental_local_results(image)))
