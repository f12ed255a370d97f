"""Memory of a forward and backward pass of `model_parallel` by device; prints one JSON object, in bytes.

All CPUs of a process share one allocator, so that TensorFlow's own counters cannot tell them apart. So the passes run
eagerly, and each tensor is counted on its device from the op that makes it until it is freed.
"""

import json
import weakref
from collections import Counter

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_callbacks
from tfscale.trainer.model_parallelism.logical_devices import logical_devices
from tfscale.trainer.programs.standalone.model_parallel import build_halves, gradients

DEVICES = logical_devices(2)
HALVES = build_halves(tf.keras, DEVICES)
LOSS = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
RANDOM = np.random.default_rng(3)
FEATURES = tf.constant(RANDOM.normal(size=(64, 784)), tf.float32)
LABELS = tf.constant(RANDOM.integers(0, 10, 64))
WEIGHTS = [weight for half in HALVES for weight in half.model.trainable_variables]


def on_one():
    with tf.device(DEVICES[0]), tf.GradientTape() as tape:
        loss = LOSS(LABELS, HALVES[1].model(HALVES[0].model(FEATURES)))
    return loss, tape.gradient(loss, WEIGHTS)


def buffer_of(tensor):
    return np.asarray(tensor).__array_interface__["data"][0]


class LiveTensors:
    """Bytes of tensors by device, without weights; those that share memory count once."""

    def __init__(self):
        self.peak, self._now, self._sharing = Counter(), Counter(), Counter()
        self._weights = {buffer_of(tf.convert_to_tensor(weight)) for weight in WEIGHTS}

    def __call__(self, _type, _inputs, _attrs, outputs, *_names, **_more):
        for tensor in outputs:
            if tensor.dtype in (tf.resource, tf.variant) or buffer_of(tensor) in self._weights:
                continue
            key, size = (tensor.device[-5:], buffer_of(tensor)), tensor.dtype.size * tensor.shape.num_elements()
            self._sharing[key] += 1
            self._count(key, size if self._sharing[key] == 1 else 0)
            weakref.finalize(tensor, self._freed, key, size)

    def _freed(self, key, size):
        self._sharing[key] -= 1
        self._count(key, 0 if self._sharing[key] else -size)

    def _count(self, key, size):
        self._now[key[0]] += size
        self.peak[key[0]] = max(self.peak[key[0]], self._now[key[0]])


def peak(call):
    call()
    tensors = LiveTensors()
    op_callbacks.add_op_callback(tensors)
    call()
    op_callbacks.remove_op_callback(tensors)
    return tensors.peak


two, one = peak(lambda: gradients(HALVES, LOSS, FEATURES, LABELS)), peak(on_one)
print(json.dumps({"two": two, "one": one, "weights": [4 * half.model.count_params() for half in HALVES]}))
