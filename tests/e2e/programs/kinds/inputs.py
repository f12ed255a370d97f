"""Ways in which a program feeds its training."""

from __future__ import annotations

import tensorflow as tf
from program import BATCH, STEPS, arrays, compiled, late, main, program, told


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
    x, y = arrays()

    def batches():
        for step in range(STEPS):
            late()
            yield x[step * BATCH : (step + 1) * BATCH], y[step * BATCH : (step + 1) * BATCH]

    return told(compiled().fit(batches(), steps_per_epoch=STEPS, verbose=0).history["loss"])


if __name__ == "__main__":
    main()
