"""GPU-hours, and money, that a finding costs an hour now: its loss times the number of GPUs that train."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tfscale.console.analysis.findings import loss_of
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.cluster.gpu_price import GpuPrice, gpu_hours, hours_text
from tfscale.core.records.diagnosis import Diagnosis

GPU_HOURS = "gpu_hours_per_hour"
EVIDENCE = (GPU_HOURS, "money_per_hour", "currency")
"""Names of the live cost in the evidence of a diagnosis that is open."""
_HOUR = 3600.0
_LEAST = 0.005
"""Share of the time below which a loss is shown as 0 %, and has no price."""


def gpus_at_work(tasks: Iterable[ObservedTask]) -> int | None:
    """Return the number of GPUs on which the running tasks train; None where a worker's is unknown, or without any."""
    known = 0
    for task in tasks:
        if task.running and (devices := task.probe.devices if task.probe else None) is not None:
            known += devices.gpus
        elif task.running and task.meets:
            return None
    return known or None


def with_live_cost(diagnoses: Iterable[Diagnosis], gpus: int | None, price: GpuPrice | None) -> list[Diagnosis]:
    """Return the diagnoses, each loss with its GPU-hours an hour; unchanged where no GPU is known."""
    return [_priced(diagnosis, gpus, price) if gpus else diagnosis for diagnosis in diagnoses]


def _priced(diagnosis: Diagnosis, gpus: int, price: GpuPrice | None) -> Diagnosis:
    loss = loss_of(diagnosis)
    if loss is None or loss < _LEAST:
        return diagnosis
    hours = gpu_hours(gpus, _HOUR * loss)
    money = f" or {price.money(hours)}" if price else ""
    sentence = f"{diagnosis.sentence.removesuffix('.')} ({hours_text(hours)}{money} an hour)."
    cost: list[float | str] = [hours]
    if price:
        cost += [price.per_hour * hours, price.currency]
    evidence = diagnosis.evidence | dict(zip(EVIDENCE, cost, strict=False))
    return replace(diagnosis, sentence=sentence, evidence=evidence)
