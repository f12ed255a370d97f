"""Linear scaling of the learning rate: one replica's rate times the number of replicas, after a warm-up, with decay.

n replicas make a step with n times the examples, so an epoch has an n-th of the steps, and each may be n times as long.
At the start gradients change too fast for that; over the warm-up the rate rises from one replica's. See Goyal et al.,
Accurate, Large Minibatch SGD (2017), section 2; the rule is for SGD, and Adam bears less of it.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tfscale.trainer.launch.program_flags import MOST

VALUES = "steps of warm-up, and :cosine, :exponential or :staircase for a decay, such as 20:cosine"

REFUSED = {
    ("central-storage", "tf_keras"): "tf_keras writes the rate of a schedule in each step, which a replica cannot do",
}

_DECAYS = ("constant", "cosine", "exponential", "staircase")


def parse(text: str) -> tuple[int, str]:
    """Return steps of warm-up and kind of decay. Raises ValueError."""
    steps, _, decay = text.partition(":")
    decay = decay or "constant"
    if not steps.isdecimal() or decay not in _DECAYS:
        raise ValueError(f"write steps of warm-up, and the decay if there is one: 20, 0:cosine ({', '.join(_DECAYS)})")
    if int(steps) > MOST:
        raise ValueError(f"a warm-up has at most {MOST} steps")
    return int(steps), decay


def learning_rate(value: tuple[int, str], rate: float, replicas: int, steps: int) -> Any:
    """Return the schedule for a training of `steps` steps; `rate` suits one replica."""
    warm_up, kind = value
    after = max(steps - warm_up, 1)
    return WarmUp(rate, warm_up, _decay(kind, rate * replicas, after))


def _decay(kind: str, rate: float, steps: int) -> Any:
    """Return the schedule after the warm-up: from `rate` to zero, to a hundredth, or in three stairs."""
    schedules = tf.keras.optimizers.schedules
    if kind == "cosine":
        return schedules.CosineDecay(rate, steps)
    if kind == "exponential":
        return schedules.ExponentialDecay(rate, steps, decay_rate=0.01)
    if kind == "staircase":
        return schedules.PiecewiseConstantDecay([steps // 2, steps * 3 // 4], [rate, rate / 10, rate / 100])
    return schedules.PiecewiseConstantDecay([steps], [rate, rate])


@tf.keras.utils.register_keras_serializable("learning_rate")
class WarmUp(tf.keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
    """Rate that rises from `first` to the rate of the following schedule in `steps` steps."""

    def __init__(self, first: float, steps: int, then: Any) -> None:
        super().__init__()
        self.first, self.steps, self.then = first, steps, then

    def __call__(self, step: Any) -> Any:
        """Return the rate of a step, counted from 0."""
        step = tf.cast(step, tf.float32)
        rate = tf.cast(self.then(tf.maximum(step - self.steps, 0.0)), tf.float32)
        share = tf.minimum(step / max(self.steps, 1), 1.0) if self.steps else 1.0
        return self.first + (rate - self.first) * share

    def get_config(self) -> dict[str, Any]:
        """Return the arguments for a saved model."""
        return {"first": self.first, "steps": self.steps, "then": tf.keras.optimizers.schedules.serialize(self.then)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> WarmUp:
        """Return the schedule of a saved model."""
        return cls(config["first"], config["steps"], tf.keras.optimizers.schedules.deserialize(config["then"]))
