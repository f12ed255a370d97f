"""Training step, as the assembler makes it and the reports carry it: pure Python, no TensorFlow."""

from __future__ import annotations

from typing import NamedTuple

from tfscale.trainer.probe.rows.spans import Distribution


class Step(NamedTuple):
    """Training step, which ends when its gradients are reduced. Seconds; NaN is unknown or, in `reduce`, nothing.

    The phases and the pauses between follow each other from the end of the step before (docs/reference/phases.md) and
    add up to the time between the two ends.
    """

    sequence: int
    end: float
    update: float
    host: float
    input: float
    compute: float
    reduce: float
    clamped: bool = False
    bytes: int = 0
    gathered: int = 0
    """Part of `bytes` that is all-gathered, and not reduced."""
    dense_bytes: int = 0
    """Bytes that its sparse gradients would have as dense tensors."""
    wire_type: str = ""
    """Type of most of its bytes."""
    micro_batches: int = 1
    """Forward and backward passes for one update."""
    local_steps: int = 1
    """Updates that this replica made by itself up to the reduction."""
    examples: float = 0.0
    earlier: tuple[float, ...] = ()
    """Seconds by which each local replica's gradients were ready before the slowest's; empty for one replica."""
    global_step: int | None = None
    distribution: Distribution = Distribution()


class Tail(NamedTuple):
    """End of the steps so far, where the next step begins; Unix seconds."""

    sequence: int
    """Sequence number of the next step."""
    exit: float
    """Time at which the gradients of the newest step were reduced."""
    updated: float
    """Time at which the newest step's updates were done."""
    reduced: float
    """Time at which the newest reduction was over."""
