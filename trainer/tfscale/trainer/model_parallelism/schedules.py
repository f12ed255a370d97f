"""Schedules of a pipeline: the order of forward and backward passes in each stage, and the bubble (idle time).

GPipe (Huang et al. 2019) makes all forward passes, then all backward passes, so that each stage holds the activations
of every micro-batch. 1F1B (Narayanan et al. 2019) begins a backward pass as soon as it can, so that stage s of p holds
p - s at most. Both leave the same bubble.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

FORWARD, BACKWARD = "forward", "backward"


class Pass(NamedTuple):
    """One pass of a micro-batch through a stage."""

    kind: str
    micro_batch: int


class Span(NamedTuple):
    """Time in which a stage was busy with one pass, in seconds of a monotonic clock."""

    begin: float
    end: float


def gpipe(stage: int, stages: int, micro_batches: int) -> list[Pass]:
    """Return the passes of a stage: all forward, then all backward from the last to the first."""
    del stage, stages  # the same in each
    forward = [Pass(FORWARD, index) for index in range(micro_batches)]
    return forward + [Pass(BACKWARD, index) for index in reversed(range(micro_batches))]


def one_forward_one_backward(stage: int, stages: int, micro_batches: int) -> list[Pass]:
    """Return the passes of a stage: as many forward as fill the stages after it, then backward and forward in turn."""
    ahead = min(stages - 1 - stage, micro_batches)
    order = [Pass(FORWARD, index) for index in range(ahead)]
    for index in range(micro_batches):
        if ahead + index < micro_batches:
            order.append(Pass(FORWARD, ahead + index))
        order.append(Pass(BACKWARD, index))
    return order


SCHEDULES = {"gpipe": gpipe, "1f1b": one_forward_one_backward}
"""Functions of stage, stages and micro-batches, by the names that the command line takes."""


def most_held(order: Sequence[Pass]) -> int:
    """Return how many micro-batches at most have gone forward through a stage and not yet back."""
    held, most = 0, 0
    for each in order:
        held += 1 if each.kind == FORWARD else -1
        most = max(most, held)
    return most


def expected_bubble(stages: int, micro_batches: int) -> float:
    """Return the idle share of all stages' time, (p-1)/(m+p-1), if all stages have the same work."""
    return (stages - 1) / (micro_batches + stages - 1)


def measured_bubble(spans: Sequence[Sequence[Span]]) -> float:
    """Return the idle share of all stages' time from the first begin to the last end, given the spans by stage."""
    begin = min(span.begin for stage in spans for span in stage)
    end = max(span.end for stage in spans for span in stage)
    busy = sum(span.end - span.begin for stage in spans for span in stage)
    return 1 - busy / (len(spans) * (end - begin))
