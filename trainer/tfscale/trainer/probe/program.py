"""How a strategy distributes a program."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import distribute_lib
from tfscale.trainer.probe.steps.spans import LOCAL, Program

_KNOWN = "_tfscale_program"


def program_of(strategy: Any) -> Program:
    """Of any strategy, the default one among them; read once."""
    program: Program | None = strategy.__dict__.get(_KNOWN)
    if program is None:
        program = _read(strategy)
        object.__setattr__(strategy, _KNOWN, program)
    return program


def _read(strategy: Any) -> Program:
    if isinstance(strategy, distribute_lib._DefaultDistributionStrategy):
        return Program()
    replicas: int = strategy.num_replicas_in_sync
    return Program(
        strategy=_public_name(strategy),
        replicas=replicas,
        local_replicas=len(getattr(strategy.extended, "worker_devices", ())) or 1,
        collective=_collective(strategy.extended) if replicas > 1 else None,
    )


def _collective(extended: Any) -> str:
    if getattr(extended, "_num_workers", 1) == 1:
        return LOCAL
    implementation: str = extended._communication_options.implementation.value
    # What AUTO stands for without a GPU.
    return "RING" if implementation == "AUTO" and not tf.config.list_logical_devices("GPU") else implementation


def _public_name(strategy: Any) -> str:
    """The name under which TensorFlow exports the strategy's class, which may have another of its own."""
    for kind in type(strategy).__mro__:
        names: tuple[str, ...] = getattr(kind, "_tf_api_names", ())
        if names:
            return names[-1].rpartition(".")[2]
    return type(strategy).__name__
