"""Mixed precision: layers compute in 16 bits, variables and their updates stay in float32.

`float16` is for GPUs from compute capability 7.0 on. Its smallest number is 6e-8, so the loss is multiplied by a scale
before the gradients are computed, and these are divided by it afterwards; a step whose gradients overflow is left out,
and the scale halved. `bfloat16`, for CPUs with AVX-512 or AMX, GPUs from 8.0 on and TPUs, has the range of float32 and
needs no scale. Gradients reach the all-reduce in float32 under both: `wire` sends them in 16 bits.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

VALUES = "float16 or bfloat16"

_SCALED = ("MirroredStrategy", "MultiWorkerMirroredStrategy", "CollectiveAllReduceStrategy", "OneDeviceStrategy")
"""Strategies in which each replica has its own copy of the variables, as a scale of the loss needs."""


def parse(text: str) -> str:
    """Return the type in which layers compute. Raises ValueError."""
    if text not in ("float16", "bfloat16"):
        raise ValueError("write float16 or bfloat16")
    return text


def prepare(kind: str, keras: Any) -> None:
    """Let all layers that are made later compute in this type.

    A model's last layer should stay in float32 (`Dense(10, dtype="float32")`): a loss of rounded logits is inexact.
    """
    keras.mixed_precision.set_global_policy(f"mixed_{kind}")


def check(kind: str) -> None:
    """Raise ValueError where the strategy of this scope cannot have a scale of the loss."""
    name = type(tf.distribute.get_strategy()).__name__
    if kind == "float16" and tf.distribute.has_strategy() and name not in _SCALED:
        raise ValueError(f"float16 scales the loss, which {name} does not support; use bfloat16")


def optimizer(kind: str, keras: Any, optimizer: Any) -> Any:
    """Return the optimizer, for float16 inside an optimizer that scales the loss."""
    return keras.mixed_precision.LossScaleOptimizer(optimizer) if kind == "float16" else optimizer
