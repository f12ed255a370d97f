"""Training of `tensor_parallel` on a mesh, beside the same function on one device; prints one JSON object."""

import json

import numpy as np
import tensorflow as tf
from tensorflow.experimental import dtensor
from tfscale.trainer.model_parallelism.logical_devices import logical_devices
from tfscale.trainer.programs.standalone.tensor_parallel import (
    LEARNING_RATE,
    batches,
    initial_weights,
    loss_of,
    split_weights,
    train,
)

STEPS, BATCH, WIDTH = 20, 32, 128
DEVICES = logical_devices(4)
START = initial_weights(WIDTH)


def mesh_of(batch_parts, model_parts):
    devices = [each.removeprefix("/device:") for each in DEVICES[: batch_parts * model_parts]]
    return dtensor.create_mesh([("batch", batch_parts), ("model", model_parts)], devices=devices)


def sequential():
    weights = {name: tf.Variable(value) for name, value in START.items()}
    losses = []
    for images, labels in batches(BATCH, STEPS):
        with tf.GradientTape() as tape:
            loss = loss_of(weights, images, labels)
        for name, gradient in tape.gradient(loss, weights).items():
            weights[name].assign_sub(LEARNING_RATE * gradient)
        losses.append(float(loss))
    return losses, {name: weight.numpy() for name, weight in weights.items()}


def whole(weight):
    replicated = dtensor.Layout.replicated(MESH, rank=weight.shape.rank)
    return dtensor.unpack(dtensor.relayout(weight.read_value(), replicated))[0].numpy()


def apart(these, those):
    return max(abs(a - b) for a, b in zip(these, those, strict=True))


MESH = mesh_of(2, 2)
weights = split_weights(START, MESH)
result = train(weights, MESH, BATCH, STEPS)
losses, single = sequential()
others = [
    train(split_weights(START, mesh), mesh, BATCH, 5)["loss"] for mesh in (mesh_of(1, 1), mesh_of(1, 4), mesh_of(4, 1))
]
print(
    json.dumps(
        {
            "losses": apart(result["loss"], losses),
            "losses by mesh": [apart(each, losses[:5]) for each in others],
            "weights": max(float(np.abs(whole(weights[name]) - single[name]).max()) for name in single),
            "moved": min(float(np.abs(START[name] - single[name]).max()) for name in single),
            "fell": losses[0] - losses[-1],
            "parts": result["parts"],
            "on": [each.device[-5:] for each in dtensor.unpack(weights["hidden kernel"].read_value())],
        }
    )
)
