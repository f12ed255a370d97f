"""Medians over the window, subject by subject, and the cluster's rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tfscale.core.analysis.findings import SubjectSummary
from tfscale.core.analysis.steps.phases import medians, others_median, waits
from tfscale.core.analysis.steps.step_table import Aligned, Floats, StepTable

SECONDS = 5.0
STEPS = 20
"""Summaries are over the larger of these two, so that they move with what happens now."""

_AT_ONCE = 128
"""Subjects: what is made of their steps stays in a core's cache."""


def summaries(table: StepTable, window: Aligned, steps: int) -> dict[str, SubjectSummary]:
    """What each subject's newest `steps` were like; waiting and ratios only for those that line up in the window."""
    subjects = table.subjects()
    if not subjects:
        return {}
    together = _together(window)
    return {
        subject: _summary(table, subject, values, *together.get(subject, (None, None)))
        for subject, values in zip(subjects, _alone(table, subjects, steps), strict=True)
    }


def steps_per_second(end: Floats) -> float | None:
    """The rate of the steps with these (k,) ends, those included of which the end is not known (NaN). None for fewer
    than two."""
    known = np.flatnonzero(np.isfinite(end))
    if len(known) < 2 or end[known[-1]] <= end[known[0]]:
        return None
    return float((known[-1] - known[0]) / (end[known[-1]] - end[known[0]]))


def _together(window: Aligned) -> dict[str, tuple[float | None, float | None]]:
    """(wait, ratio) by subject."""
    if len(window) == 0 or len(window.subjects) < 2:
        return {}
    lag = medians(window.lag)
    known = np.where(np.isnan(lag), np.nanmedian(lag), lag)
    peers = others_median(known[None, :])[0]
    ratio = lag / np.where(peers > 0, peers, np.nan)
    pairs = zip(_optional(medians(waits(window.reduce))), _optional(ratio), strict=True)
    return dict(zip(window.subjects, pairs, strict=True))


def _alone(table: StepTable, subjects: Sequence[str], steps: int) -> list[list[float | None]]:
    """The medians of each subject's phases, lag and whole step."""
    phases = table.newest_of_each(subjects, steps)
    rows: list[list[float | None]] = []
    for first in range(0, len(phases), _AT_ONCE):
        some = phases[first : first + _AT_ONCE]
        lag = some[:, :-1].sum(axis=1, keepdims=True)
        rows += _optional(medians(np.concatenate([some, lag, lag + some[:, -1:]], axis=1), axis=2))
    return rows


def _summary(
    table: StepTable, subject: str, values: Sequence[float | None], wait: float | None, ratio: float | None
) -> SubjectSummary:
    update, host, fetch, compute, reduce, lag, whole = values
    if whole is None:
        whole = known_median(np.diff(table.recent(subject, SECONDS, STEPS)))
    return SubjectSummary(
        table.newest(subject),
        table.global_step(subject),
        whole,
        update,
        host,
        fetch,
        compute,
        reduce,
        wait,
        lag,
        ratio,
    )


def _optional(values: Floats) -> list[Any]:
    """Numbers as the rest of the program has them: unknown is None."""
    unknown = np.isnan(values)
    numbers = values.astype(object) if unknown.any() else values
    if unknown.any():
        numbers[unknown] = None
    return list(numbers.tolist())


def known_median(values: Floats) -> float | None:
    """The median of what is not NaN, None where nothing is known."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else None
