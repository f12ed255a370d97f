"""Forms of tf.data: sources, files that the program writes, transformations, shapes of elements."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf
from program import BATCH, STEPS, arrays, batches, compiled, learn, main, model, program, slowly, told

ANY_ORDER = tf.data.Options()
ANY_ORDER.deterministic = False


def _fit(data, **fitting):
    return compiled().fit(data, verbose=0, **fitting).history["loss"]


def _records(path, part=slice(None)):
    """Write a TFRecord file of examples, as protobuf messages."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for x, y in zip(*(each[part] for each in arrays()), strict=True):
            lists = {"x": x, "y": y}
            features = {
                name: tf.train.Feature(float_list=tf.train.FloatList(value=each)) for name, each in lists.items()
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def _parse(record):
    shapes = {"x": tf.io.FixedLenFeature([8], tf.float32), "y": tf.io.FixedLenFeature([1], tf.float32)}
    found = tf.io.parse_single_example(record, shapes)
    return found["x"], found["y"]


@program()
def from_generator():
    def examples():
        yield from zip(*arrays(), strict=True)

    shapes = (tf.TensorSpec((8,), tf.float32), tf.TensorSpec((1,), tf.float32))
    return told(_fit(tf.data.Dataset.from_generator(examples, output_signature=shapes).batch(BATCH)))


@program(quick=False)
def record_file():
    _records("train.tfrecord")
    data = tf.data.TFRecordDataset("train.tfrecord").map(_parse, tf.data.AUTOTUNE).batch(BATCH).prefetch(1)
    return told(_fit(data))


@program(quick=False)
def interleaved_record_files():
    for part in range(4):
        _records(f"part-{part}.tfrecord", slice(part, None, 4))
    files = tf.data.Dataset.list_files("part-*.tfrecord", shuffle=False)
    data = files.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=2, deterministic=True)
    return told(_fit(data.map(_parse).batch(BATCH)))


@program(quick=False)
def lines_of_a_text_file():
    x, y = arrays()
    np.savetxt("train.csv", np.hstack([x, y]), delimiter=",", header="a,b", comments="")

    def parse(line):
        numbers = tf.stack(tf.io.decode_csv(line, [0.0] * 9))
        return numbers[:8], numbers[8:]

    return told(_fit(tf.data.TextLineDataset("train.csv").skip(1).map(parse).batch(BATCH)))


@program(quick=False)
def csv_with_named_columns():
    x, y = arrays()
    names = ",".join([*"abcdefgh", "y"])
    np.savetxt("train.csv", np.hstack([x, y]), delimiter=",", header=names, comments="", fmt="%.6f")
    data = tf.data.experimental.make_csv_dataset("train.csv", BATCH, label_name="y", num_epochs=1, shuffle=False)
    data = data.map(lambda columns, y: (tf.stack([*columns.values()], axis=1), y[:, None]))
    return told(_fit(data))


@program(quick=False)
def cached_in_memory_for_epochs():
    data = batches().map(lambda x, y: (x * 2, y), tf.data.AUTOTUNE).cache().shuffle(10, seed=1)
    return told(_fit(data.prefetch(tf.data.AUTOTUNE), epochs=3), 3 * STEPS)


@program(quick=False)
def cached_in_a_file():
    return told(_fit(batches().cache("cache"), epochs=2), 2 * STEPS)


@program()
def repeated_without_end():
    data = tf.data.Dataset.from_tensor_slices(arrays()).shuffle(64, seed=1).repeat().batch(BATCH)
    return told(_fit(data, epochs=3, steps_per_epoch=STEPS), 3 * STEPS)


@program(quick=False)
def python_in_map():
    return told(_fit(slowly(batches())))


@program(same_numbers=False, quick=False)
def any_order():
    data = batches().map(lambda x, y: (x, y), num_parallel_calls=4).with_options(ANY_ORDER)
    return told(_fit(data))


@program()
def ragged_batches():
    """Sentences of unequal length, as ragged tensors of which a layer takes the mean."""
    lengths = np.random.default_rng(1).integers(1, 9, STEPS * BATCH)
    words = tf.RaggedTensor.from_row_lengths(tf.range(lengths.sum()) % 50, lengths)
    data = tf.data.Dataset.from_tensor_slices((words, lengths[:, None].astype("float32"))).ragged_batch(BATCH)
    table = tf.Variable(tf.random.stateless_normal((50, 4), (1, 2)))
    head, optimizer = tf.keras.layers.Dense(1, kernel_initializer="ones"), tf.keras.optimizers.SGD(0.01)
    head.build((None, 4))
    weights = [table, *head.trainable_variables]

    @tf.function
    def step(words, y):
        with tf.GradientTape() as tape:
            sums = tf.reduce_sum(tf.ragged.map_flat_values(tf.nn.embedding_lookup, table, words), axis=1)
            loss = tf.reduce_mean((head(sums) - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    return told([float(step(words, y)) for words, y in data])


@program(quick=False)
def padded_batches_by_length():
    lengths = np.random.default_rng(1).integers(1, 9, STEPS * BATCH)
    shapes = (tf.TensorSpec((None,), tf.float32), tf.TensorSpec((1,), tf.float32))
    data = tf.data.Dataset.from_generator(lambda: ((np.ones(n), [n]) for n in lengths), output_signature=shapes)
    data = data.padded_batch(BATCH, padded_shapes=((8,), (1,)))
    return told(_fit(data))


@program(quick=False)
def bucketed_by_length():
    lengths = np.random.default_rng(1).integers(1, 9, STEPS * BATCH)
    shapes = (tf.TensorSpec((None, 2), tf.float32), tf.TensorSpec((1,), tf.float32))
    data = tf.data.Dataset.from_generator(lambda: ((np.ones((n, 2)), [n]) for n in lengths), output_signature=shapes)
    data = data.bucket_by_sequence_length(lambda x, y: tf.shape(x)[0], [3, 6], [BATCH] * 3, drop_remainder=True)
    tf.keras.utils.set_random_seed(1)
    layers = tf.keras.layers
    network = tf.keras.Sequential([layers.Input((None, 2)), layers.GlobalAveragePooling1D(), layers.Dense(1)])
    network.compile("sgd", "mse")
    steps = sum(1 for _ in data)
    return told(network.fit(data, verbose=0).history["loss"], steps)


@program(quick=False)
def sparse_batches():
    """Sparse rows, multiplied by a dense kernel in a hand-written step."""
    x, y = arrays()
    rows = tf.sparse.from_dense(np.where(x > 0.5, x, 0))
    data = tf.data.Dataset.from_tensor_slices((rows, y)).batch(BATCH)
    kernel, optimizer = tf.Variable(tf.ones((8, 1))), tf.keras.optimizers.SGD(0.01)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.sparse.sparse_dense_matmul(x, kernel) - y) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, kernel), kernel)])
        return loss

    return told([float(step(x, y)) for x, y in data])


@program(quick=False)
def features_by_name():
    x, y = arrays()
    layers = tf.keras.layers
    tf.keras.utils.set_random_seed(1)
    inputs = {name: layers.Input((4,), name=name) for name in ("left", "right")}
    network = tf.keras.Model(inputs, layers.Dense(1)(layers.Concatenate()([*inputs.values()])))
    network.compile("sgd", "mse")
    data = tf.data.Dataset.from_tensor_slices(({"left": x[:, :4], "right": x[:, 4:]}, y)).batch(BATCH)
    return told(network.fit(data, verbose=0).history["loss"])


@program(quick=False)
def sampled_from_two_sources():
    x, y = arrays()
    halves = [tf.data.Dataset.from_tensor_slices((x[part::2], y[part::2])).repeat() for part in range(2)]
    data = tf.data.Dataset.sample_from_datasets(halves, [0.7, 0.3], seed=1).batch(BATCH).take(STEPS)
    return told(_fit(data))


@program(quick=False)
def snapshot_and_saved_copy():
    batches().save("copy")
    data = tf.data.Dataset.load("copy").snapshot("snapshots", compression=None)
    losses = _fit(data)
    for path in [*Path("snapshots").rglob("*"), *Path("copy").rglob("*")]:
        if path.is_file():
            path.unlink()  # Their names are made of random numbers.
    return told(losses)


@program(same_numbers=False, quick=False)
def data_service():
    """Let a tf.data service of this process read."""
    dispatcher = tf.data.experimental.service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    worker = tf.data.experimental.service.WorkerServer(
        tf.data.experimental.service.WorkerConfig(dispatcher_address=address)
    )
    service = tf.data.experimental.service.distribute("parallel_epochs", dispatcher.target)
    losses = _fit(batches().apply(service))
    del worker
    return told(losses)


@program(quick=False)
def windows_of_a_time_series():
    series = tf.data.Dataset.range(STEPS * BATCH + 8).map(lambda i: tf.sin(tf.cast(i, tf.float32) / 10))
    windows = series.window(9, shift=1, drop_remainder=True).flat_map(lambda window: window.batch(9))
    return told(_fit(windows.map(lambda window: (window[:8], window[8:])).batch(BATCH)))


@program(quick=False)
def restarted_iterator():
    """Make an iterator anew in each epoch, and leave it before its end."""
    network, optimizer = model(), tf.keras.optimizers.SGD(0.01)
    step = tf.function(lambda x, y: learn(network, optimizer, x, y))
    losses = []
    for _ in range(3):
        source = iter(batches())
        losses += [float(step(*next(source))) for _ in range(10)]
    return told(losses, 30)


if __name__ == "__main__":
    main()
