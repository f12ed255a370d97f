"""The load of a cluster: the time of each part of its step. Limits and remedies are computed from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from tfscale.console.analysis.findings import Findings, SubjectSummary
from tfscale.console.analysis.run.scaling import bus_bandwidth
from tfscale.core.comparison.ring_volume import volume
from tfscale.core.records.probe_status import ProbeStatus

WAITING = 0.5
"""Share of the median wait for data from which on a worker is named as waiting for it. Equal inputs differ by less than
half; with much less, a worker that waits a tenth as long would be named."""


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
    """Bytes that a replica gives to the all-reduce in one step, None unknown."""
    gathered: float = 0.0
    """Share of the bytes that is all-gathered, 0 to 1."""
    dense: float = 0.0
    """Bytes that the sparse gradients would have as dense tensors; 0 where no gradient is sparse."""
    wire_type: str | None = None
    """Type in which most of the bytes travel."""
    micro_batches: int = 1
    """Micro-batches of which a step adds up the gradients."""
    local_steps: int = 1
    """Updates of each replica by itself up to one all-reduce: the program's steps in one step here."""
    link: float | None = None
    """Bits a second of the slowest link, None unknown."""
    link_source: str | None = None
    """Source of `link`, as the evidence names it."""
    late: tuple[str, ...] = ()
    """Workers whose data come last, where the others' own speed of input is unknown; `input` is theirs."""
    waiting: tuple[str, ...] = ()
    """Workers that wait for their data, where not all do; the others wait for these."""
    is_whole: bool = True
    """False where a worker's steps are unknown: a seeming all-reduce may be a wait for that worker."""

    @property
    def bus(self) -> float | None:
        """Bits a second over each link while the all-reduce runs, None unknown."""
        if not self.payload or self.transfer <= 0 or self.ranks < 2:
            return None
        return 8 * bus_bandwidth(self.payload, self.transfer, self.ranks, self.gathered)

    @property
    def gathered_volume(self) -> float:
        """Share of the bytes over each link that is all-gathered, 0 to 1."""
        if self.ranks < 2 or not self.gathered:
            return 0.0
        return volume(self.gathered, self.ranks, 1.0) / volume(1.0, self.ranks, self.gathered)

    def of_program(self, probe: ProbeStatus | None) -> Load:
        """Return this load with the probe's facts about the program."""
        if probe is None:
            return self
        payload = probe.reduced_bytes_per_step
        return replace(
            self,
            ranks=probe.ranks or self.ranks,
            payload=payload,
            gathered=min(1.0, (probe.gathered_bytes_per_step or 0) / payload) if payload else 0.0,
            dense=probe.dense_bytes_per_step or 0.0,
            wire_type=probe.wire_type,
            micro_batches=probe.micro_batches or 1,
            local_steps=probe.local_steps or 1,
        )


def load_of(findings: Findings, workers: Sequence[SubjectSummary], probe: ProbeStatus | None) -> Load | None:
    """Return the present load by the facts about the workers that train.

    None where the step is not measured, or where no all-reduce joins the workers.
    """
    if findings.step_time is None or findings.transfer is None or not workers:
        return None
    return Load(
        step=findings.step_time,
        transfer=min(findings.transfer, findings.step_time),
        input=_median_phase(workers, "input"),
        compute=_median_phase(workers, "compute") + _median_phase(workers, "update"),
        ranks=len(workers),
    ).of_program(probe)


def _median_phase(workers: Sequence[SubjectSummary], phase: str) -> float:
    measured: list[float] = [value for worker in workers if (value := getattr(worker, phase)) is not None]
    return median(measured) if measured else 0.0
