"""One run as the gate compares it: its contract, and the mean time of each part of each worker's step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

STEP = "step"
"""Part that is all phases together."""
CONTRACT = {
    "program": ("command", "files", "settings", "program", "strategy", "loop", "techniques", "input", "weights"),
    "batch": ("examples a step", "micro-batches", "local steps"),
    "size": ("tasks", "replicas"),
    "precision": ("dtype policy", "reduced as", "reduced a step"),
    "versions": ("tfscale", "TensorFlow", "Keras"),
    "hardware": ("cores", "GPU model", "GPUs"),
}
"""Facts in which two runs have to be equal, by the word that `--across` takes."""


@dataclass(frozen=True, slots=True)
class GatedRun:
    """Run of a file."""

    path: Path
    facts: Mapping[str, str]
    """By their names in CONTRACT; what a file does not tell is absent."""
    seconds: Mapping[tuple[str, str], float]
    """Mean time by worker and part, without the first tenth of the steps."""


def mean_of(runs: Sequence[GatedRun], key: tuple[str, str]) -> float:
    return fmean(run.seconds[key] for run in runs if key in run.seconds)
