"""Stages of a pipeline: parts of a model on devices, each with a thread of its own and queues to its neighbours."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Executor
from itertools import pairwise
from queue import SimpleQueue
from typing import Any

import tensorflow as tf
from tfscale.trainer.model_parallelism.schedules import FORWARD, Pass, Span


class Stage:
    """Part of a model on one device: its gradients, its optimizer, and forward passes that await their way back."""

    def __init__(self, model: Any, device: str, optimizer: Any, loss: Any = None, recompute: bool = False) -> None:
        """Take a built model with its weights on the device; the last stage also has the loss."""
        self.device = device
        self.held: dict[int, Any] = {}
        """Activations by micro-batch, or with `recompute` the input alone, from the forward to the backward pass."""
        self.most_held = 0
        self._recompute = recompute
        self._weights = model.trainable_variables
        self._optimizer = optimizer
        with tf.device(device):
            self.gradients = [tf.Variable(tf.zeros_like(weight), trainable=False) for weight in self._weights]
            # An optimizer makes its variables where it is built, not where the weights are.
            optimizer.build(self._weights)
        self._outputs = tf.function(lambda x, y: loss(y, model(x, training=True)) if loss else model(x, training=True))

    def forward(self, micro_batch: int, features: Any, labels: Any) -> Any:
        """Return the output, in the last stage the loss, and hold the tensors for the way back."""
        with tf.device(self.device):
            features = tf.identity(features)  # comes over from the device before
            if self._recompute:
                self.held[micro_batch] = features, labels
                output = self._outputs(features, labels)
            else:
                self.held[micro_batch], output = self._taped(features, labels)
            self.most_held = max(self.most_held, len(self.held))
            return _finished(output)

    def backward(self, micro_batch: int, gradient: Any) -> Any:
        """Add to the gradients of the weights, and return the gradient of the input; forget the forward pass."""
        with tf.device(self.device):
            held = self.held.pop(micro_batch)
            tape, features, output = self._taped(*held)[0] if self._recompute else held
            sources = [features, *self._weights]
            of_input, *of_weights = tape.gradient(output, sources, output_gradients=tf.identity(gradient))
            for total, each in zip(self.gradients, of_weights, strict=True):
                total.assign_add(each)
            _finished(self.gradients[-1])
            return _finished(of_input)

    def update(self) -> None:
        """Apply the gradients, and begin new ones: to be called in a `tf.function` for all stages of a step."""
        with tf.device(self.device):
            self._optimizer.apply_gradients(zip(self.gradients, self._weights, strict=True))
            for total in self.gradients:
                total.assign(tf.zeros_like(total))

    def _taped(self, features: Any, labels: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            tape.watch(features)
            output = self._outputs(features, labels)
        return (tape, features, output), output


def _finished(tensor: Any) -> Any:
    """Wait until a tensor is computed, by reading one element: a GPU returns tensors before that."""
    tf.reshape(tensor, [-1])[0].numpy()
    return tensor


class Link:
    """Queues between two stages. Results come in the order of the schedule, so they need no names."""

    def __init__(self) -> None:
        self.activations: SimpleQueue[Any] = SimpleQueue()
        self.gradients: SimpleQueue[Any] = SimpleQueue()


def run_passes(
    pool: Executor, stages: Sequence[Stage], orders: Sequence[Sequence[Pass]], features: Any, labels: Any
) -> tuple[float, list[list[Span]]]:
    """Run all passes of one step, a thread of the pool for each stage; return the mean loss and the spans by stage.

    Features and labels are sequences of micro-batches of equal size. The gradients of their mean loss are added to the
    stages' gradients.
    """
    links = [Link() for _ in range(len(stages) + 1)]
    for each in features:
        links[0].activations.put(each)
        links[-1].gradients.put(tf.constant(1 / len(features)))
    running = [
        pool.submit(_run, stage, order, before, after, labels)
        for stage, order, (before, after) in zip(stages, orders, pairwise(links), strict=True)
    ]
    spans = [each.result() for each in running]
    losses = [links[-1].activations.get() for _ in features]
    return float(tf.reduce_mean(losses)), spans


def _run(stage: Stage, order: Sequence[Pass], before: Link, after: Link, labels: Any) -> list[Span]:
    try:
        # One thread for each stage's kernels: independent ones would else take the core of another stage.
        with tf.experimental.function_executor_type("SINGLE_THREADED_EXECUTOR"):
            return [_pass(stage, each, before, after, labels) for each in order]
    except BaseException as error:
        after.activations.put(error)
        before.gradients.put(error)
        raise


def _pass(stage: Stage, each: Pass, before: Link, after: Link, labels: Any) -> Span:
    value = _take(before.activations if each.kind == FORWARD else after.gradients)
    begin = time.perf_counter()
    if each.kind == FORWARD:
        result = stage.forward(each.micro_batch, value, labels[each.micro_batch])
    else:
        result = stage.backward(each.micro_batch, value)
    end = time.perf_counter()
    (after.activations if each.kind == FORWARD else before.gradients).put(result)
    return Span(begin, end)


def _take(queue: SimpleQueue[Any]) -> Any:
    """Wait for a neighbour's result. Raises the neighbour's error in its place."""
    value = queue.get()
    if isinstance(value, BaseException):
        raise value
    return value
