"""Newest steps of a cluster by their numbering: of all workers together, or of each at its own pace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tfscale.console.analysis.steps.arrays import Floats

ALL = "all"
"""Name of the pace of workers that meet in each step."""


class Paced(NamedTuple):
    """Newest steps of one pace."""

    attempt: tuple[int, int]
    """(generation, attempt) of the task with this pace."""
    newest: int
    """Sequence of the newest step."""
    ends: Floats
    """(k,) ends of the newest steps in order, Unix seconds; NaN unknown."""


@dataclass(frozen=True, slots=True)
class NewestSteps:
    """Newest steps of a cluster, including those of tasks that no longer run."""

    attempt: tuple[int, int]
    """(generation, attempt) in which the steps are numbered."""
    part: int
    """Process of the attempt that numbers the steps."""
    end: float
    """End of the newest step, Unix seconds; NaN unknown."""
    number: int | None
    """Global step of the newest step, None where the program does not count them."""
    paces: Mapping[str, Paced] = field(default_factory=dict)
    """Present steps by the name of their pace; workers that meet in each step share one pace, ALL."""
