"""Digits trained by workers of different pace: the parts that the programs in `programs/standalone/` share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tfscale.trainer.input.batches import Examples
from tfscale.trainer.launch.program_flags import above_0, write_json
from tfscale.trainer.programs import digits
from tfscale.trainer.slow.worker_pause import Slow, add_worker_flags, begin_work, pause
from tfscale.trainer.training.held_out import evaluate, plain_model


def add_server_flags(parser: argparse.ArgumentParser, *, workers: int, steps: int, slow: str, batch: str) -> None:
    """Add the flags of a program on parameter servers; `batch` says whose examples `--batch` counts."""
    add_worker_flags(parser, workers=workers, steps=steps, slow=slow)
    parser.add_argument("--servers", type=above_0, metavar="N", help="tasks that hold the variables; default 1")
    usual = digits.BATCH
    parser.add_argument("--batch", type=above_0, default=usual, metavar="N", help=f"{batch}; default {usual}")


def run_on_servers(
    settings: argparse.Namespace,
    train: Callable[[argparse.Namespace, Any, int], dict[str, Any]],
    show: Callable[[dict[str, Any]], None],
) -> None:
    """Serve the chief as a worker or a server; as the chief, train, and print and write the result."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    cluster = resolver.cluster_spec()
    if resolver.task_type in ("worker", "ps"):
        tf.distribute.Server(cluster, job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc").join()
    result = train(settings, tf.distribute.ParameterServerStrategy(resolver), cluster.num_tasks("worker"))
    show(result)
    write_json(settings, result)


def build(strategy: Any) -> tuple[Any, Any]:
    """Return the model and its optimizer; the strategy places their variables."""
    with strategy.scope():
        model = digits.build_model(tf.keras)
        optimizer = tf.keras.optimizers.Adam(digits.LEARNING_RATE)
        optimizer.build(model.trainable_variables)
    return model, optimizer


def loss_and_gradients(model: Any, batch: tuple[Any, Any], slow: Sequence[Slow], worker: Any) -> tuple[Any, list[Any]]:
    """Return the mean loss of a worker's batch, and its gradients, after the worker's delay, if any."""
    begun, features = begin_work(batch[0])
    with tf.GradientTape() as tape:
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(batch[1], model(features, training=True))
        loss = tf.reduce_mean(each)
    return loss, pause(slow, worker, begun, tape.gradient(loss, model.trainable_variables))


def accuracy(model: Any, held_out: Examples) -> dict[str, float]:
    """Return the accuracy of a trained model over examples that were held out."""
    return evaluate(tf.keras, digits, plain_model(tf.keras, digits, model.get_weights()), held_out)
