"""Top-k gradients: a replica sends only the largest entries of each gradient, and keeps the rest for later steps.

For a slow network. Each entry takes 8 bytes, its value and its place, and goes to all other replicas (all-gather): with
n replicas and a share s of the entries a worker sends (n - 1) * 8 * s bytes for each weight, where a ring sends 2 * (n
- 1) / n * 4. So it pays below s = 1/n, and costs the time to find the entries. Unsent entries are added to the next
gradient (error feedback); otherwise small entries would never be sent. See Stich et al., Sparsified SGD with Memory
(2018).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

VALUES = "share of the entries that is sent, such as 0.01"
REFUSED = {
    "one-device": "it has one replica, so nothing is sent",
    "central-storage": "its gradients are summed on the parameter device, without an all-reduce",
    "parameter-server": "each worker pushes its gradients to the servers, without an all-reduce",
}


@dataclass(slots=True)
class TopK:
    """Share of the entries that is sent, and the sum of all unsent entries so far."""

    share: float
    unsent: list[tf.Variable] = field(default_factory=list)
    """One tensor a gradient, flat, different on each replica."""


def parse(text: str) -> TopK:
    """Return the share, with nothing unsent. Raises ValueError."""
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise ValueError("write the share of the entries that is sent, between 0 and 1, such as 0.01")
    return TopK(share)


def exchange(top: TopK, gradients: list[Any]) -> list[Any]:
    """Return the sum of the entries that the replicas sent, as dense gradients."""
    replica = tf.distribute.get_replica_context()
    flat = [tf.reshape(tf.convert_to_tensor(gradient), [-1]) for gradient in gradients]
    sizes = [each.shape[0] for each in flat]
    if not top.unsent:
        replica.merge_call(functools.partial(_make_unsent, top, sizes))
    sent = [_largest(each, unsent, top.share) for each, unsent in zip(flat, top.unsent, strict=True)]
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    places = [place + start for (_, place), start in zip(sent, starts, strict=True)]
    # Two all-gathers for all gradients together.
    all_values = replica.all_gather(tf.concat([value for value, _ in sent], 0), axis=0)
    all_places = replica.all_gather(tf.concat(places, 0), axis=0)
    summed = tf.split(tf.scatter_nd(all_places[:, None], all_values, [sum(sizes)]), sizes)
    return [tf.reshape(each, gradient.shape) for each, gradient in zip(summed, gradients, strict=True)]


def _largest(gradient: Any, unsent: tf.Variable, share: float) -> tuple[Any, Any]:
    """Return values and places of the largest entries of a flat gradient; the other entries are kept."""
    total = gradient + unsent
    number = max(1, round(gradient.shape[0] * share))
    _, places = tf.math.top_k(tf.abs(total), number, sorted=False)
    values = tf.gather(total, places)
    rest = tf.tensor_scatter_nd_update(total, places[:, None], tf.zeros_like(values))
    # A float16 step that overflowed is left out by the optimizer; remembered, it would spoil all later ones.
    unsent.assign(tf.where(tf.math.is_finite(rest), rest, tf.zeros_like(rest)))
    return values, places


def _make_unsent(top: TopK, sizes: list[int], strategy: Any) -> None:
    """Make the variables, outside of the function in which the first step is traced."""
    with tf.init_scope(), strategy.scope():
        local = {"synchronization": tf.VariableSynchronization.ON_READ, "aggregation": tf.VariableAggregation.SUM}
        top.unsent.extend(tf.Variable(tf.zeros([size]), trainable=False, **local) for size in sizes)
