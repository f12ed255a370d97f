"""Gate against regressions: two sets of runs, their contract, and a verdict on each worker's step."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from tfscale.console.gate.gated_run import CONTRACT, STEP, GatedRun, mean_of
from tfscale.core.comparison.judgement import ERROR, Judgement, judge_sets
from tfscale.core.errors import UsageError
from tfscale.core.records.step_batch import PHASES
from tfscale.core.text import listing
from tfscale.core.text_enum import TextEnum


class Outcome(TextEnum):
    """Result of a gate, or of one worker in it."""

    PASSED = "passed"
    """The slowdown is surely smaller than what is allowed."""
    FAILED = "failed"
    """It is surely slower, and by more than is allowed."""
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class GateRow:
    """One part of one worker's step in both sets."""

    worker: str
    part: str
    base: float
    """Mean over the runs, seconds."""
    new: float
    judgement: Judgement
    outcome: Outcome | None
    """None for a phase, which shows where the time goes and decides nothing."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Comparison of two sets."""

    base: Sequence[GatedRun]
    new: Sequence[GatedRun]
    allowed: float
    """Slowdown that is allowed, as a fraction."""
    differences: tuple[str, ...]
    """Facts that differ, each as a phrase; all of them were allowed."""
    rows: tuple[GateRow, ...]

    @property
    def outcome(self) -> Outcome:
        outcomes = {row.outcome for row in self.rows}
        return next(each for each in (Outcome.FAILED, Outcome.UNDECIDED, Outcome.PASSED) if each in outcomes)


def gate(base: Sequence[GatedRun], new: Sequence[GatedRun], allowed: float, across: Collection[str]) -> Gate:
    """Compare two sets. Raises UsageError where they differ in what `across` does not name."""
    differences = dict(_differences([*base, *new]))
    refused = [word for word in differences if word not in across]
    if refused:
        told = "; ".join(differences[word] for word in refused)
        raise UsageError(f"not comparable: {told}; --across {','.join(refused)} compares all the same")
    rows = tuple(_rows(base, new, allowed))
    if not rows:
        raise UsageError(f"no worker is in all runs: {listing(sorted({run.path.name for run in [*base, *new]}))}")
    return Gate(base, new, allowed, tuple(differences.values()), rows)


def _differences(runs: Sequence[GatedRun]) -> Iterator[tuple[str, str]]:
    """Yield each word of the contract in which runs differ, with the first fact that does."""
    for word, names in CONTRACT.items():
        for name in names:
            # A fact that some files do not tell is no difference: a recording without a description is old.
            values = {run.facts[name]: run.path for run in runs if name in run.facts}
            if len(values) > 1:
                told = " and ".join(f"{value} in {path}" for value, path in list(values.items())[:2])
                yield word, f"{word} differs: {name} is {told}"
                break


def _rows(base: Sequence[GatedRun], new: Sequence[GatedRun], allowed: float) -> Iterator[GateRow]:
    """Yield the step of each worker with its phases."""
    runs = [*base, *new]
    shared = [key for key in runs[0].seconds if all(key in run.seconds for run in runs)]
    workers = sorted({worker for worker, part in shared if part == STEP})
    for worker in workers:
        for part in (STEP, *PHASES):
            if (key := (worker, part)) in shared:
                # Each worker may be told wrongly: all of them share the error.
                error = ERROR / len(workers)
                judged = judge_sets(
                    [run.seconds[key] for run in base], [run.seconds[key] for run in new], error, allowed
                )
                outcome = _outcome(judged, allowed) if part == STEP else None
                yield GateRow(worker, part, mean_of(base, key), mean_of(new, key), judged, outcome)


def _outcome(judged: Judgement, allowed: float) -> Outcome:
    if judged.low > 0 and judged.change > allowed:
        return Outcome.FAILED
    return Outcome.PASSED if judged.high < allowed else Outcome.UNDECIDED
