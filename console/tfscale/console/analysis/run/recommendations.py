"""Recommendations: changes that would help the cluster now, with gains by a model alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tfscale.console.analysis.finding_kinds import NOT_JUDGED_WHY
from tfscale.console.analysis.findings import Findings, is_calm, one_each
from tfscale.console.analysis.run.load import Load
from tfscale.console.analysis.run.remedies import for_cluster, for_stragglers
from tfscale.console.analysis.run.scaling import ring_forecast
from tfscale.core.comparison.size_forecast import Forecast
from tfscale.core.records.diagnosis import Diagnosis, Remedy

LEAST_GAIN = 1.005
"""Gain (a factor) below which a remedy is left out: half a percent is within the noise of any run, and with a higher
limit small but free gains would be hidden."""


@dataclass(frozen=True, slots=True)
class Recommendations:
    """Findings to repair first, limits, and remedies in the order of their gain."""

    culprits: tuple[Diagnosis, ...]
    """Open findings other than limits and calm ones, each sentence once, the most severe first."""
    limits: tuple[Diagnosis, ...]
    """Open findings of saturation."""
    not_judged: str | None
    """Reason why limits are not judged now, None where they are."""
    remedies: tuple[Remedy, ...]
    """Remedies with a gain, the largest first; empty where the step is not measured."""
    unproven: tuple[str, ...]
    """Remedies of the limits without a predicted gain."""


def recommend(findings: Findings, load: Load | None) -> Recommendations:
    """Return the recommendations from the findings of one moment; with `load` None the step is not measured."""
    diagnoses = [diagnosis for diagnosis in findings.diagnoses if diagnosis.end is None]
    limits = tuple(diagnosis for diagnosis in diagnoses if diagnosis.kind == "saturation")
    remedies = [*(_with_gain(findings, diagnoses, load) if load else ()), *_of_links(limits)]
    return Recommendations(
        culprits=tuple(one_each(each for each in diagnoses if each.kind != "saturation" and not is_calm(each))),
        limits=limits,
        not_judged=_not_judged(findings, diagnoses),
        remedies=tuple(sorted(remedies, key=lambda remedy: -(remedy.gain or 0.0))),
        unproven=tuple(dict.fromkeys(each.what for limit in limits for each in limit.remedies if each.gain is None)),
    )


def _not_judged(findings: Findings, diagnoses: Sequence[Diagnosis]) -> str | None:
    reasons = (findings.condition.kind.value, *(diagnosis.kind for diagnosis in diagnoses))
    return next((NOT_JUDGED_WHY[reason] for reason in reasons if reason in NOT_JUDGED_WHY), None)


def _of_links(limits: Sequence[Diagnosis]) -> Iterator[Remedy]:
    """Yield the remedies with a gain of single tasks' links, of which a load knows nothing."""
    for limit in limits:
        if limit.evidence.get("resource") == "server_link":
            yield from (remedy for remedy in limit.remedies if remedy.gain and remedy.gain >= LEAST_GAIN)


def _with_gain(findings: Findings, diagnoses: list[Diagnosis], load: Load) -> Iterator[Remedy]:
    yield from (remedy for remedy in for_cluster(load) if remedy.gain and remedy.gain >= LEAST_GAIN)
    stragglers = sorted({diagnosis.subject for diagnosis in diagnoses if diagnosis.kind == "straggler"})
    if stragglers and findings.slowdown:
        yield for_stragglers(stragglers, findings.slowdown)


def speedup(load: Load) -> Callable[[float], Forecast] | None:
    """Return the forecast throughput as a multiple of a single worker's, by number of workers; None for one worker."""
    lag = load.step - load.transfer
    if load.ranks < 2 or lag <= 0:
        return None
    return lambda workers: ring_forecast(lag, load.transfer, load.ranks, workers, load.gathered)
