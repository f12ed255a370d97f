"""What would help, and by how much: from the figures of a live run of one size. Never a gain without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

from tfscale.console.engine.model import Snapshot
from tfscale.core.analysis import whatif
from tfscale.core.analysis.findings import SubjectSummary
from tfscale.core.analysis.scaling import Forecast, Published, nearest_published, ring_forecast
from tfscale.core.analysis.whatif import Remedy
from tfscale.core.records import Diagnosis
from tfscale.core.task import Role

LEAST_GAIN = 1.005
"""Below it a remedy is not worth a line."""


@dataclass(frozen=True, slots=True)
class Present:
    """The cluster's step as it is, in medians, seconds."""

    step: float
    transfer: float
    input: float
    compute: float
    """With the update of the variables."""
    workers: int
    """Participants of the all-reduce."""


@dataclass(frozen=True, slots=True)
class Advice:
    """All that the screen says; `present` and what follows from it is None or empty where no steps are measured."""

    culprits: tuple[Diagnosis, ...]
    """Open findings about tasks, the most severe first."""
    limits: tuple[Diagnosis, ...]
    """Open findings of saturation."""
    present: Present | None
    remedies: tuple[Remedy, ...]
    """With a gain, the largest first."""
    unproven: tuple[str, ...]
    """Worth trying, and no model says what they bring."""


def advice(snapshot: Snapshot) -> Advice:
    """What can be advised at this moment."""
    diagnoses = [each for each in snapshot.findings.diagnoses if each.end is None]
    present = present_of(snapshot)
    limits = tuple(each for each in diagnoses if each.kind == "saturation")
    remedies = _remedies(snapshot, present) if present else ()
    return Advice(
        culprits=tuple(each for each in diagnoses if each.kind != "saturation"),
        limits=limits,
        present=present,
        remedies=tuple(sorted(remedies, key=lambda each: -(each.gain or 0.0))),
        unproven=tuple(dict.fromkeys(each for limit in limits for each in _unproven(limit))),
    )


def present_of(snapshot: Snapshot) -> Present | None:
    """The step as it is; None where it is not measured, or where nobody meets anybody."""
    findings = snapshot.findings
    views = [view for view in snapshot.tasks if view.is_up and view.task.role in (Role.CHIEF, Role.WORKER)]
    summaries = [view.summary for view in views if view.summary]
    probes = [view.frame.probe for view in views if view.frame and view.frame.probe]
    workers = next((probe.ranks for probe in probes if probe.ranks), len(summaries))
    if findings.step_time is None or findings.transfer is None or not summaries:
        return None
    return Present(
        findings.step_time,
        min(findings.transfer, findings.step_time),
        _middle(summaries, "input"),
        _middle(summaries, "compute") + _middle(summaries, "update"),
        workers,
    )


def _middle(summaries: list[SubjectSummary], phase: str) -> float:
    known: list[float] = [value for each in summaries if (value := getattr(each, phase)) is not None]
    return median(known) if known else 0.0


def _remedies(snapshot: Snapshot, present: Present) -> Iterator[Remedy]:
    yield from (each for each in _for_all(present) if each.gain and each.gain >= LEAST_GAIN)
    named = sorted({each.subject for each in snapshot.findings.diagnoses if each.kind == "straggler" and not each.end})
    if named and snapshot.findings.slowdown:
        who = ", ".join(named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else "")
        yield Remedy(
            f"{who} as fast as the others", snapshot.findings.slowdown, "as long in a step as the median of the others"
        )


def _for_all(present: Present) -> Iterator[Remedy]:
    step, moved, fetch, workers = present.step, present.transfer, present.input, present.workers
    yield Remedy("devices twice as fast", whatif.half_the_compute(step, present.compute), "half the compute", True)
    if fetch > 0:
        yield Remedy("prefetching and parallel maps", whatif.prefetched(step, fetch), "input beside training", True)
    if workers < 2 or moved <= 0:
        return
    grows = min(present.compute + fetch, step - moved)
    more = whatif.more_workers(step, moved, workers, 2 * workers)
    yield Remedy("gradients cast to bfloat16 for the wire", whatif.half_the_bytes(step, moved), "half the bytes", True)
    yield Remedy("links twice as fast", whatif.faster_link(step, moved, 2), "half the transfer", True)
    yield Remedy("accumulating 4 micro-batches", whatif.accumulated(step, moved, 4), "a quarter of the all-reduces")
    yield Remedy("a batch twice as large", whatif.larger_batch(step, grows, 2), "compute and input double")
    yield Remedy(f"{2 * workers} workers instead of {workers}", more, "ring all-reduce", True)


def _unproven(limit: Diagnosis) -> list[str]:
    said = limit.evidence.get("remedies")
    return [each for each in said.split("; ") if "throughput)" not in each] if isinstance(said, str) else []


def scaling(present: Present) -> Callable[[float], Forecast] | None:
    """Throughput of so many workers over that of one alone, with its band; None where one works alone."""
    lag = present.step - present.transfer
    if present.workers < 2 or lag <= 0:
        return None
    return lambda workers: ring_forecast(lag, present.transfer, present.workers, workers)


def comparable(present: Present) -> Published:
    """What others have published of a similar number of workers."""
    return nearest_published(max(1, present.workers))
