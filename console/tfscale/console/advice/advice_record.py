"""Record of the advice: how far earlier predictions of each model were from what the remedy then brought.

`scripts/bench/advice.py` predicts and measures, and writes the file beside this module.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from statistics import median

from tfscale.core.text import plural

_FILE = "advice_record.json"


@dataclass(frozen=True, slots=True)
class Case:
    """A remedy that was predicted, then tried. Gains are factors of throughput."""

    model: str
    """Assumption of the prediction, as in `Remedy.model`."""
    program: str
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """Distance of the predicted from the measured throughput, as a share of the measured one."""
        return self.predicted / self.measured - 1


@cache
def _cases() -> tuple[Case, ...]:
    document = json.loads(files("tfscale.console.advice").joinpath(_FILE).read_text(encoding="utf-8"))
    return tuple(Case(**{name: case[name] for name in Case.__dataclass_fields__}) for case in document["cases"])


@dataclass(frozen=True, slots=True)
class Record:
    """How far the predictions of one model were off."""

    error: float
    """Median distance, as a share of what was measured."""
    cases: int

    @property
    def words(self) -> str:
        """Sentence for one remedy alone."""
        return f"such predictions were {self.error:.0%} off in the median, {plural(self.cases, 'case')}"

    @property
    def short(self) -> str:
        """Words for a row of a table, below which `LEGEND` stands."""
        return f"{self.error:.0%} off in {plural(self.cases, 'case')}"


LEGEND = "off: how far such predictions were, in the median, where the remedy was tried"


def record_of(model: str, cases: Sequence[Case] | None = None) -> Record | None:
    """Return the record of a model; None where none of its predictions was tried.

    `cases` are those of the record that tfscale brings, unless others are given.
    """
    errors = [abs(case.error) for case in (_cases() if cases is None else cases) if case.model == model]
    return Record(median(errors), len(errors)) if errors else None


def record_words(model: str, cases: Sequence[Case] | None = None) -> str | None:
    """Return how far predictions by a model were off, in words; None where none was tried."""
    record = record_of(model, cases)
    return record.words if record else None
