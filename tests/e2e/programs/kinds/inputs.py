"""Ways in which a program feeds its training from Python: arrays, generators, classes of its own."""

from __future__ import annotations

import itertools
import queue
import threading
from pathlib import Path

import numpy as np
import tensorflow as tf
from program import BATCH, STEPS, arrays, batches, compiled, late, learn, main, model, program, told


def _rows(step):
    x, y = arrays()
    return x[step * BATCH : (step + 1) * BATCH], y[step * BATCH : (step + 1) * BATCH]


@program()
def fit_arrays():
    model = compiled()
    return told(model.fit(*arrays(), batch_size=BATCH, verbose=0).history["loss"])


@program(quick=False)
def fit_dataset():
    model = compiled()
    data = tf.data.Dataset.from_tensor_slices(arrays()).shuffle(100, seed=1).batch(BATCH).prefetch(2)
    return told(model.fit(data, verbose=0).history["loss"])


@program()
def fit_generator():
    def endless():
        for step in range(STEPS):
            late()
            yield _rows(step)

    return told(compiled().fit(endless(), steps_per_epoch=STEPS, verbose=0).history["loss"])


@program(quick=False)
def fit_own_sequence():
    """Batches by number, from a class that people derive; both Keras have it under this name."""

    class Rows(tf.keras.utils.Sequence):
        def __len__(self):
            return STEPS

        def __getitem__(self, number):
            return _rows(number)

    return told(compiled().fit(Rows(), shuffle=False, verbose=0).history["loss"])


@program(keras=("keras 3",), same_numbers=False, quick=False)
def fit_sequence_with_threads():
    class Rows(tf.keras.utils.PyDataset):
        def __len__(self):
            return STEPS

        def __getitem__(self, number):
            return _rows(number)

    return told(compiled().fit(Rows(workers=2, max_queue_size=4), epochs=2, verbose=0).history["loss"], 2 * STEPS)


@program(quick=False)
def fit_tensors_in_memory():
    x, y = (tf.constant(each) for each in arrays())
    return told(compiled().fit(x, y, batch_size=BATCH, shuffle=False, verbose=0).history["loss"])


@program(quick=False)
def fit_with_a_last_smaller_batch():
    x, y = arrays(STEPS * BATCH - 5)
    return told(compiled().fit(x, y, batch_size=BATCH, verbose=0).history["loss"])


@program(quick=False)
def fit_with_sample_and_class_weights():
    x, y = arrays()
    network = compiled()
    first = network.fit(x, y, batch_size=BATCH, sample_weight=np.linspace(0, 1, len(x)), verbose=0)
    labels = (y > 4).astype(int)
    network = compiled(loss=tf.keras.losses.BinaryCrossentropy(from_logits=True))
    second = network.fit(x, labels, batch_size=BATCH, class_weight={0: 1.0, 1: 3.0}, verbose=0)
    return told(first.history["loss"] + second.history["loss"], 2 * STEPS)


@program(quick=False)
def fit_memory_mapped_file():
    """Read a file as NumPy reads those that are larger than memory."""
    x, y = arrays()
    np.save("x.npy", x)
    mapped = np.load("x.npy", mmap_mode="r")
    return told(compiled().fit(mapped, y, batch_size=BATCH, shuffle=False, verbose=0).history["loss"])


@program(quick=False)
def loop_over_files():
    """Hand each file of a folder to `fit`, as people do whose data set does not fit in memory."""
    x, y = arrays()
    parts = range(5)
    for part in parts:
        np.savez(f"part{part}.npz", x=x[part::5], y=y[part::5])
    network, losses, size = compiled(), [], len(x) // 5
    for path in sorted(Path().glob("part*.npz")):
        with np.load(path) as part:
            losses += network.fit(part["x"], part["y"], batch_size=BATCH, verbose=0).history["loss"]
    return told(losses, 5 * -(-size // BATCH))


@program(quick=False)
def numpy_iterator_into_a_step():
    """Take batches out of a data set as arrays, and hand them to a `tf.function`."""
    network, optimizer = model(), tf.keras.optimizers.SGD(0.01)

    @tf.function
    def step(x, y):
        return learn(network, optimizer, x, y)

    return told([float(step(x, y)) for x, y in batches().as_numpy_iterator()])


@program()
def loader_thread():
    """Read ahead in a thread of the program's own, through a queue."""
    network, optimizer, ready = model(), tf.keras.optimizers.SGD(0.01), queue.Queue(4)

    def load():
        for step in range(STEPS):
            ready.put(_rows(step))
        ready.put(None)

    threading.Thread(target=load, daemon=True).start()
    step = tf.function(lambda x, y: learn(network, optimizer, x, y))
    return told([float(step(tf.constant(x), tf.constant(y))) for x, y in iter(ready.get, None)])


@program(quick=False)
def train_on_batch_of_a_generator():
    def endless():
        for step in itertools.cycle(range(STEPS)):
            yield _rows(step)

    network, source = compiled(), endless()
    return told([float(np.ravel(network.train_on_batch(*next(source)))[0]) for _ in range(STEPS)])


if __name__ == "__main__":
    main()
