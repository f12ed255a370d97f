"""Checks for values that no healthy agent sends, made once at arrival."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from tfscale.core.cluster.task import subject_task
from tfscale.core.errors import UsageError
from tfscale.core.records.frame import Frame
from tfscale.core.records.step_batch import LAG_PHASES, StepBatch

LATEST = 253_402_300_800.0
"""Unix seconds of the year 10,000, beyond which Python has no dates."""
LARGEST = 1 << 53
"""Largest number of a step: greater numbers are not exact in JSON, and no training comes near."""
_COLUMNS = ("end", "global_step", "reduce", "pull", *LAG_PHASES)
_columns = attrgetter(*_COLUMNS)


def is_moment(at: float) -> bool:
    """Decide whether these Unix seconds are a date; NaN and the infinities are not."""
    return -LATEST < at < LATEST


def check_frame(frame: Frame) -> None:
    """Raise ValueError where the frame's time is not a date, or a batch is not consistent."""
    check_time(frame.at)
    for batch in frame.steps:
        check_steps(batch)
        check_counts(batch.sequence)
        check_counts(batch.global_step)


def check_time(at: float) -> None:
    """Raise ValueError where a time, in Unix seconds, is not a date."""
    if not is_moment(at):
        raise ValueError(f"a time is {at:g}, which is no date")


def check_steps(batch: StepBatch) -> None:
    """Raise ValueError where a batch's reporter or subject is not a task, or its columns differ in length."""
    for name in {batch.subject, batch.reporter}:
        check_subject(name)
    count = len(batch.sequence)
    lengths = list(map(len, _columns(batch)))
    if not set(lengths) <= {0, count}:
        name, length = next(pair for pair in zip(_COLUMNS, lengths, strict=True) if pair[1] not in (0, count))
        raise ValueError(f"steps of {batch.subject}: {count} in all, {length} in column {name}")


def check_counts(counts: Sequence[int]) -> None:
    """Raise ValueError if a step's number is too large to count with."""
    if counts and max(counts) > LARGEST:
        raise ValueError(f"step {max(counts)} is beyond what can be counted")


def check_subject(subject: str) -> None:
    """Raise ValueError for a name that is not of a task, or of a task's replica or stage."""
    try:
        task = subject_task(subject)
    except UsageError as error:
        raise ValueError(f"steps: {error}") from None
    if task is None:
        raise ValueError("steps of the cluster: only tasks, their replicas and their stages have steps")
