"""MobileNetV2 as in `mobilenet`, on images of 64 x 64 and with a third of its width: 1,066,593 weights.

For CPUs: it has the same layers, so that results about them hold for `mobilenet`, too.
"""

from __future__ import annotations

from typing import Any

from tfscale.trainer.programs import mobilenet
from tfscale.trainer.programs.mobilenet import loss as loss

BATCH = 16
LEARNING_RATE = 0.001
METRICS = ("accuracy",)
EXAMPLES = 2_000
SIZE = 64


def examples(seed: int, count: int = EXAMPLES) -> tuple[Any, Any]:
    """Return images of shape (n, 64, 64, 3), and which way their stripes go."""
    return mobilenet.examples(seed, count, SIZE)


def build_model(keras: Any) -> Any:
    """Build the model; its last layer returns a probability."""
    return mobilenet.build_model(keras, SIZE, alpha=0.35)
