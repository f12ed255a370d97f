"""All cells: strategy x loop x Keras version, and the reasons why some are impossible."""

from __future__ import annotations

STRATEGIES = ("none", "one_device", "mirrored", "central_storage", "multi_worker", "multi_worker_replicas")
LOOPS = (
    "fit",
    "fit8",
    "fit_validation",
    "fit_distributed",
    "custom",
    "eager",
    "accumulation",
    "mixed",
    "bfloat16_wire",
    "syncbn",
    "sparse",
    "two_models",
    "several",
)
KERAS = {"keras 3": False, "tf_keras": True}

ABSENT: dict[tuple[str, str, str], str] = {}
"""Reason why a cell is impossible, by strategy, loop and Keras version."""
for keras in KERAS:
    ABSENT["none", "fit_distributed", keras] = "without a strategy no data set is distributed"
    ABSENT["none", "bfloat16_wire", keras] = "without a strategy nothing travels"
    # Variables that are not the optimizer's are written by all replicas together there.
    ABSENT["central_storage", "accumulation", keras] = "it reduces what is added up, too: each micro-batch is a step"
# Stock TensorFlow 2.21 with Keras 3.15: "You must specify an aggregation method to update a AggregatingVariable in
# Replica Context", from the moving statistics.
ABSENT["central_storage", "syncbn", "keras 3"] = "stock Keras 3 refuses its moving statistics under this strategy"


def loops(strategy: str, keras: str) -> list[str]:
    """Return the loops that are possible."""
    return [loop for loop in LOOPS if (strategy, loop, keras) not in ABSENT]
