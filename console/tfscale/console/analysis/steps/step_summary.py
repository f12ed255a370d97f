"""Summaries of each subject's steps in medians over the newest seconds, and rates of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tfscale.console.analysis.findings import SubjectSummary
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.arrays import Floats
from tfscale.console.analysis.steps.phases import medians, others_median, waits
from tfscale.console.analysis.steps.step_table import StepTable

SECONDS = 5.0
STEPS = 20
"""Seconds and steps of a summary, the longer of both: the straggler rule's window, short enough to show the present."""

_CHUNK = 128
"""Subjects that are summarised together: their steps stay in a core's cache."""


def summaries(table: StepTable, window: AlignedSteps, steps: int) -> dict[str, SubjectSummary]:
    """Summarise each subject's newest `steps`. Wait and ratio are known only for the subjects of `window`."""
    subjects = table.subjects()
    if not subjects:
        return {}
    compared = _compared(window)
    return {
        subject: _summary(table, subject, values, *compared.get(subject, (None, None)))
        for subject, values in zip(subjects, _medians(table, subjects, steps), strict=True)
    }


def steps_per_second(end: Floats) -> float | None:
    """Return steps a second from their (k,) ends, those unknown (NaN) included; None for fewer than two known ends."""
    ends = np.flatnonzero(np.isfinite(end))
    if len(ends) < 2 or end[ends[-1]] <= end[ends[0]]:
        return None
    return float((ends[-1] - ends[0]) / (end[ends[-1]] - end[ends[0]]))


def _compared(window: AlignedSteps) -> dict[str, tuple[float | None, float | None]]:
    """Return (wait, ratio) by subject."""
    if len(window) == 0 or len(window.subjects) < 2:
        return {}
    lag = medians(window.lag)
    filled_lag = np.where(np.isnan(lag), np.nanmedian(lag), lag)
    peers = others_median(filled_lag[None, :])[0]
    ratio = lag / np.where(peers > 0, peers, np.nan)
    pairs = zip(_optional(medians(waits(window.reduce))), _optional(ratio), strict=True)
    return dict(zip(window.subjects, pairs, strict=True))


def _medians(table: StepTable, subjects: Sequence[str], steps: int) -> list[list[float | None]]:
    """Return for each subject the medians of its phases, of its lag and of the whole step."""
    phases = table.newest_of_each(subjects, steps)
    rows: list[list[float | None]] = []
    for first in range(0, len(phases), _CHUNK):
        chunk = phases[first : first + _CHUNK]
        lag = chunk[:, :-1].sum(axis=1, keepdims=True)
        rows += _optional(medians(np.concatenate([chunk, lag, lag + chunk[:, -1:]], axis=1), axis=2))
    return rows


def _summary(
    table: StepTable, subject: str, values: Sequence[float | None], wait: float | None, ratio: float | None
) -> SubjectSummary:
    update, host, fetch, compute, reduce, lag, step_time = values
    if step_time is None:
        step_time = known_median(np.diff(table.recent(subject, SECONDS, STEPS)))
    newest, global_step = table.newest(subject), table.global_step(subject)
    return SubjectSummary(
        step=newest,
        global_step=global_step,
        step_time=step_time,
        update=update,
        host=host,
        input=fetch,
        compute=compute,
        reduce=reduce,
        wait=wait,
        lag=lag,
        ratio=ratio,
    )


def _optional(values: Floats) -> list[Any]:
    """Return nested lists of the values, with None in place of NaN."""
    unknown = np.isnan(values)
    numbers = values.astype(object) if unknown.any() else values
    if unknown.any():
        numbers[unknown] = None
    return list(numbers.tolist())


def known_median(values: Floats) -> float | None:
    """Return the median of the values that are known (finite), None where none is."""
    known_values = values[np.isfinite(values)]
    return float(np.median(known_values)) if len(known_values) else None
