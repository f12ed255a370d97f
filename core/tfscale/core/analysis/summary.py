"""Medians over the window, subject by subject, and the cluster's rates."""

from __future__ import annotations

import numpy as np
from tfscale.core.analysis.findings import SubjectSummary
from tfscale.core.analysis.phases import medians, others_median, waits
from tfscale.core.analysis.steps import Aligned, Floats, StepTable
from tfscale.core.records import PHASES

SECONDS = 5.0
STEPS = 20
"""Summaries are over the larger of these two, so that they move with what happens now."""


def window_rows(end: Floats, seconds: float = SECONDS, steps: int = STEPS) -> int:
    """How many of the newest steps, by their (k,) ends, make a window: `seconds` long, but `steps` at least."""
    if len(end) == 0:
        return 0
    recent = len(end) - int(np.searchsorted(end, end[-1] - seconds, side="right"))
    return min(len(end), max(steps, recent))


def summaries(table: StepTable, aligned: Aligned) -> dict[str, SubjectSummary]:
    """What each subject's newest steps were like; waiting and ratios only for those that line up."""
    together = _together(aligned.last(window_rows(aligned.end)))
    return {subject: _alone(table, subject, *together.get(subject, (None, None))) for subject in table.subjects()}


def steps_per_second(end: Floats) -> float | None:
    """The rate of the steps with these (k,) ends, None for fewer than two."""
    if len(end) < 2 or end[-1] <= end[0]:
        return None
    return float((len(end) - 1) / (end[-1] - end[0]))


def _together(window: Aligned) -> dict[str, tuple[float, float]]:
    """(wait, ratio) by subject."""
    if len(window) == 0 or len(window.subjects) < 2:
        return {}
    lag = medians(window.lag)
    peers = others_median(lag[None, :])[0]
    wait = medians(waits(window.reduce))
    return {
        subject: (float(wait[i]), float(lag[i] / peers[i]) if peers[i] > 0 else float("inf"))
        for i, subject in enumerate(window.subjects)
    }


def _alone(table: StepTable, subject: str, wait: float | None, ratio: float | None) -> SubjectSummary:
    end, phases = table.recent(subject, SECONDS, STEPS)
    planes = np.vstack([phases, phases[:-1].sum(axis=0), phases.sum(axis=0)])
    *parts, lag, whole = known_medians(planes)
    values = dict(zip(PHASES, parts, strict=True))
    return SubjectSummary(
        step=table.newest(subject),
        global_step=table.global_step(subject),
        step_time=known_median(np.diff(end)) if whole is None else whole,
        wait=wait,
        lag=lag,
        ratio=ratio,
        **values,
    )


def known_medians(planes: Floats) -> list[float | None]:
    """The median of each (k,) row of planes."""
    if planes.shape[1] and np.isfinite(planes).all():
        return [float(value) for value in medians(planes.T)]
    return [known_median(plane) for plane in planes]


def known_median(values: Floats) -> float | None:
    """The median of what is not NaN, None where nothing is known."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else None
