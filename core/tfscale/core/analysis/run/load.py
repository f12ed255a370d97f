"""The load of a cluster: how long each part of its step takes. Limits and remedies are computed from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tfscale.core.analysis.findings import Findings, SubjectSummary
from tfscale.core.analysis.run.scaling import bus_bandwidth


@dataclass(frozen=True, slots=True)
class Load:
    """A cluster's step in medians over its newest steps and its workers, seconds."""

    step: float
    transfer: float
    input: float
    compute: float
    """With the update of the variables."""
    ranks: int
    """Participants of the all-reduce."""
    payload: float | None = None
    """Bytes of the all-reduce in one step, None unknown."""
    link: float | None = None
    """Bits a second of the slowest link, None unknown."""
    link_source: str | None = None
    """Source of `link`, as the evidence names it."""

    @property
    def bus(self) -> float | None:
        """Bits a second over each link while the all-reduce runs, None unknown."""
        if not self.payload or self.transfer <= 0 or self.ranks < 2:
            return None
        return 8 * bus_bandwidth(self.payload, self.transfer, self.ranks)


def load_of(findings: Findings, workers: Sequence[SubjectSummary], ranks: int | None) -> Load | None:
    """Return the present load from what is known of the workers that train.

    None where the step is not measured, or where no all-reduce joins the workers. `ranks` None: as many as `workers`.
    """
    if findings.step_time is None or findings.transfer is None or not workers:
        return None
    return Load(
        step=findings.step_time,
        transfer=min(findings.transfer, findings.step_time),
        input=_median_phase(workers, "input"),
        compute=_median_phase(workers, "compute") + _median_phase(workers, "update"),
        ranks=ranks or len(workers),
    )


def _median_phase(workers: Sequence[SubjectSummary], phase: str) -> float:
    measured: list[float] = [value for worker in workers if (value := getattr(worker, phase)) is not None]
    return median(measured) if measured else 0.0
