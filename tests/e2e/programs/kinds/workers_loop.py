"""Loops that a person writes for MultiWorkerMirroredStrategy."""

from __future__ import annotations

import time

import numpy as np
import tensorflow as tf
from program import BATCH, STEPS, arrays, batches, index, late, learn, main, model, program, slowly, told

BY_HAND = tf.data.Options()
BY_HAND.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF


def _parts(**strategy_options):
    strategy = tf.distribute.MultiWorkerMirroredStrategy(**strategy_options)
    with strategy.scope():
        return strategy, model(), tf.keras.optimizers.SGD(0.01)


def _step(strategy, network, optimizer):
    """Return a traced step of all replicas, which returns their mean loss."""

    @tf.function
    def step(x, y):
        losses = strategy.run(lambda x, y: learn(network, optimizer, x, y), (x, y))
        return strategy.reduce("MEAN", losses, None)

    return step


@program(workers=2, slow="host")
def arrays_into_a_step():
    """Hand NumPy arrays to a `tf.function` on each worker; no tf.data is in it."""
    step = _step(*_parts())
    x, y = arrays()
    losses = []
    for number in range(STEPS):
        late()
        rows = slice(number * BATCH, (number + 1) * BATCH)
        losses.append(float(step(tf.constant(x[rows]), tf.constant(y[rows]))))
    return told(losses)


@program(workers=2, slow="host", quick=False)
def distributed_data_set():
    strategy, network, optimizer = _parts()
    step, losses = _step(strategy, network, optimizer), []
    for x, y in strategy.experimental_distribute_dataset(batches()):
        losses.append(float(step(x, y)))
        late()
    return told(losses)


@program(workers=2, slow="input", quick=False)
def slow_reader_of_a_data_set():
    strategy, network, optimizer = _parts()
    step = _step(strategy, network, optimizer)
    return told([float(step(x, y)) for x, y in strategy.experimental_distribute_dataset(slowly(batches()))])


@program(workers=2, slow="input")
def data_set_of_a_function():
    """Make a data set on each worker, and shard by hand."""
    strategy, network, optimizer = _parts()

    def own(context):
        data = tf.data.Dataset.from_tensor_slices(arrays()).shard(
            context.num_input_pipelines, context.input_pipeline_id
        )
        return slowly(data.batch(context.get_per_replica_batch_size(BATCH)))

    step = _step(strategy, network, optimizer)
    return told([float(step(x, y)) for x, y in strategy.distribute_datasets_from_function(own)])


@program(workers=2, slow="input", quick=False)
def epoch_in_one_function():
    strategy, network, optimizer = _parts()

    @tf.function
    def epoch(data):
        total = tf.constant(0.0)
        for x, y in data:
            losses = strategy.run(lambda x, y: learn(network, optimizer, x, y), (x, y))
            total += strategy.reduce("MEAN", losses, None)
        return total

    return told([float(epoch(strategy.experimental_distribute_dataset(slowly(batches()))))])


@program(workers=2, quick=False)
def steps_of_an_iterator_in_one_function():
    strategy, network, optimizer = _parts()

    @tf.function
    def some(source):
        total = tf.constant(0.0)
        for _ in tf.range(10):
            losses = strategy.run(lambda x, y: learn(network, optimizer, x, y), next(source))
            total += strategy.reduce("MEAN", losses, None)
        return total

    source = iter(strategy.experimental_distribute_dataset(batches().repeat()))
    return told([float(some(source)) for _ in range(STEPS // 10)])


@program(workers=2, slow="host", quick=False)
def gradients_reduced_by_hand():
    """All-reduce in the replica, and subtract from the weights without an optimizer."""
    strategy, network, _ = _parts()

    @tf.function
    def step(x, y):
        def one(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((network(x, training=True) - y) ** 2)
            found = tape.gradient(loss, network.trainable_variables)
            context = tf.distribute.get_replica_context()
            for weight, gradient in zip(network.trainable_variables, context.all_reduce("MEAN", found), strict=True):
                weight.assign(weight - 0.01 * gradient)
            return loss

        return strategy.reduce("MEAN", strategy.run(one, (x, y)), None)

    losses = []
    for x, y in strategy.experimental_distribute_dataset(batches()):
        losses.append(float(step(x, y)))
        late()
    return told(losses)


@program(workers=2, keras=("tf_keras",), quick=False)
def gradients_clipped_after_the_reduction():
    strategy, network, optimizer = _parts()

    @tf.function
    def step(x, y):
        def one(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((network(x, training=True) - y) ** 2)
            found = tape.gradient(loss, network.trainable_variables)
            found, _ = tf.clip_by_global_norm(tf.distribute.get_replica_context().all_reduce("SUM", found), 1.0)
            pairs = zip(found, network.trainable_variables, strict=True)
            optimizer.apply_gradients(pairs, skip_gradients_aggregation=True)
            return loss

        return strategy.reduce("MEAN", strategy.run(one, (x, y)), None)

    return told([float(step(x, y)) for x, y in strategy.experimental_distribute_dataset(batches())])


@program(workers=2, quick=False)
def updates_in_a_merge_call():
    strategy, _, _ = _parts()
    with strategy.scope():
        kernel = tf.Variable(tf.zeros((8, 1)))

    def update(strategy, gradient):
        mean = strategy.extended.reduce_to("MEAN", gradient, kernel)
        strategy.extended.update(kernel, lambda each, change: each.assign_sub(0.05 * change), (mean,))

    @tf.function
    def step(x, y):
        def one(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((x @ kernel - y) ** 2)
            tf.distribute.get_replica_context().merge_call(update, (tape.gradient(loss, kernel),))
            return loss

        return strategy.reduce("MEAN", strategy.run(one, (x, y)), None)

    return told([float(step(x, y)) for x, y in strategy.experimental_distribute_dataset(batches())])


@program(workers=2, quick=False)
def predictions_gathered_each_step():
    strategy, network, optimizer = _parts()

    @tf.function
    def step(x, y):
        def one(x, y):
            return learn(network, optimizer, x, y), network(x)

        losses, made = strategy.run(one, (x, y))
        return strategy.reduce("MEAN", losses, None), strategy.gather(made, axis=0)

    numbers = []
    for x, y in strategy.experimental_distribute_dataset(batches()):
        loss, made = step(x, y)
        numbers += [float(loss), float(tf.reduce_mean(made))]
    return told(numbers)


@program(workers=2, slow="host", quick=False)
def loop_in_eager_code():
    strategy, network, optimizer = _parts()
    losses = []
    for x, y in strategy.experimental_distribute_dataset(batches()):
        late()
        found = strategy.run(lambda x, y: learn(network, optimizer, x, y), (x, y))
        losses.append(float(strategy.reduce("MEAN", found, None)))
    return told(losses)


@program(workers=2, slow="host", quick=False)
def ring_of_small_packs():
    implementation = tf.distribute.experimental.CommunicationImplementation.RING
    options = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=256, implementation=implementation)
    strategy, network, optimizer = _parts(communication_options=options)
    step, losses = _step(strategy, network, optimizer), []
    for x, y in strategy.experimental_distribute_dataset(batches()):
        late()
        losses.append(float(step(x, y)))
    return told(losses)


@program(workers=2)
def only_the_chief_evaluates():
    strategy, network, optimizer = _parts()
    step, data = _step(strategy, network, optimizer), strategy.experimental_distribute_dataset(batches())
    x, y = arrays(64)
    numbers = []
    for epoch in range(3):
        numbers += [float(step(*batch)) for batch in data]
        if index() == 0:
            print("epoch", epoch, "error", float(np.mean((network(x).numpy() - y) ** 2)))
    return told(numbers, 3 * STEPS)


@program(workers=2)
def one_worker_has_fewer_batches():
    """Give one worker fewer batches: it goes on with empty ones, until nobody has any."""
    strategy, network, optimizer = _parts()

    def own(context):
        data = tf.data.Dataset.from_tensor_slices(arrays()).batch(BATCH)
        return data.take(STEPS - 10 * context.input_pipeline_id)

    @tf.function
    def epoch(data):
        steps = tf.constant(0)
        for x, y in data:
            strategy.run(lambda x, y: learn(network, optimizer, x, y), (x, y))
            steps += 1
        return steps

    steps = int(epoch(strategy.distribute_datasets_from_function(own)))
    return told([float(steps)], steps)


@program(workers=2, quick=False)
def checkpoints_as_in_the_tutorial():
    """Save on each worker, in a folder of its own."""
    strategy, network, optimizer = _parts()
    step, data = _step(strategy, network, optimizer), strategy.experimental_distribute_dataset(batches())
    epoch = tf.Variable(0)
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(model=network, epoch=epoch), f"checkpoints-{index()}", max_to_keep=2
    )
    losses = []
    for _ in range(3):
        losses += [float(step(x, y)) for x, y in data]
        epoch.assign_add(1)
        manager.save()
    return told([*losses, float(epoch)], 3 * STEPS)


@program(workers=2, quick=False)
def rows_of_a_table():
    """Sparse gradients of an embedding, gathered from all workers."""
    strategy, _, optimizer = _parts()
    with strategy.scope():
        table = tf.Variable(tf.zeros((1000, 4)))
    ids = np.random.default_rng(1).integers(0, 1000, STEPS * BATCH)
    data = tf.data.Dataset.from_tensor_slices((ids, arrays()[1])).batch(BATCH)

    @tf.function
    def step(ids, y):
        def one(ids, y):
            with tf.GradientTape() as tape:
                made = tf.reduce_sum(tf.nn.embedding_lookup(table, ids), axis=1, keepdims=True)
                loss = tf.reduce_mean((made - y) ** 2)
            optimizer.apply_gradients([(tape.gradient(loss, table), table)])
            return loss

        return strategy.reduce("MEAN", strategy.run(one, (ids, y)), None)

    return told([float(step(ids, y)) for ids, y in strategy.experimental_distribute_dataset(data)])


@program(workers=2, slow="host", quick=False)
def waits_between_steps():
    """Sleep in the program itself, on both workers; only the slowed one is slower."""
    strategy, network, optimizer = _parts()
    step, losses = _step(strategy, network, optimizer), []
    for x, y in strategy.experimental_distribute_dataset(batches().with_options(BY_HAND)):
        time.sleep(0.01)
        late()
        losses.append(float(step(x, y)))
    return told(losses)


if __name__ == "__main__":
    main()
