"""Results of the two halves of `model_parallel`, and their devices, beside one device; prints one JSON object."""

import json
from collections import Counter

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tfscale.trainer.model_parallelism.logical_devices import logical_devices
from tfscale.trainer.programs.standalone.model_parallel import build_halves, bytes_by_device, gradients

DEVICES = logical_devices(2)
HALVES = build_halves(tf.keras, DEVICES)
LOSS = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
RANDOM = np.random.default_rng(3)
FEATURES = tf.constant(RANDOM.normal(size=(64, 784)), tf.float32)
LABELS = tf.constant(RANDOM.integers(0, 10, 64))
WEIGHTS = [weight for half in HALVES for weight in half.model.trainable_variables]


@tf.function
def on_two(features, labels):
    return gradients(HALVES, LOSS, features, labels)


@tf.function
def in_scopes_alone(features, labels):
    """Put one tape around layers in the scopes of their devices, as tutorials print it."""
    with tf.GradientTape() as tape:
        with tf.device(DEVICES[0]):
            hidden = HALVES[0].model(features)
        with tf.device(DEVICES[1]):
            loss = LOSS(labels, HALVES[1].model(hidden))
    return loss, tape.gradient(loss, WEIGHTS)


def on_one(features, labels):
    with tf.device(DEVICES[0]), tf.GradientTape() as tape:
        loss = LOSS(labels, HALVES[1].model(HALVES[0].model(features)))
    return loss, tape.gradient(loss, WEIGHTS)


def multiplications(function):
    """Matrix multiplications that each device executes, by the graphs that TensorFlow gives to the devices.

    It tells them when a function is first called.
    """
    function(FEATURES, LABELS)
    graphs = [graph for each in context.export_run_metadata().function_graphs for graph in each.partition_graphs]
    return Counter(node.device[-1] for graph in graphs for node in graph.node if "MatMul" in node.op)


def difference(these, those):
    return max(
        float(tf.reduce_max(tf.abs(a - b)) / tf.reduce_max(tf.abs(b))) for a, b in zip(these, those, strict=True)
    )


context.enable_run_metadata()
on_devices, on_devices_by_scopes = multiplications(on_two), multiplications(in_scopes_alone)
context.disable_run_metadata()
two_loss, *halves_gradients = on_two(FEATURES, LABELS)
eager_gradients = gradients(HALVES, LOSS, FEATURES, LABELS)[1:]
one_loss, one_gradients = on_one(FEATURES, LABELS)
print(
    json.dumps(
        {
            "multiplications": on_devices,
            "in scopes alone": on_devices_by_scopes,
            "loss": [float(two_loss), float(one_loss)],
            "difference": difference([*halves_gradients[0], *halves_gradients[1]], one_gradients),
            "gradients on": [sorted({each.device[-5:] for each in half}) for half in eager_gradients],
            "weights": [half.model.count_params() for half in HALVES],
            "bytes": bytes_by_device(HALVES),
        }
    )
)
