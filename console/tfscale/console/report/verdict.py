"""The first sentence of a report: the productive share of the time, and the main costs of the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tfscale.console.analysis.causes.cause_words import IN_A_WORD
from tfscale.console.analysis.finding_kinds import Charge, FindingKind, Group, kind_of
from tfscale.console.analysis.run.goodput import PRODUCTIVE
from tfscale.console.analysis.stragglers.straggler_words import names_of
from tfscale.console.report.finding_ledger import ReportedFinding
from tfscale.console.report.run_report import RunGroup
from tfscale.core.cluster.task import CLUSTER
from tfscale.core.text import duration

_BUCKETS = {
    "start": "the start",
    "compile": "compilation",
    "input": "waiting for data",
    "checkpoint": "writing checkpoints",
    "evaluation": "evaluation",
    "lost_progress": "steps made again after a restart",
    "unknown": "what nothing explains, between the steps,",
}
"""Names of buckets of goodput; `stragglers`, `standstill` and `recovery` are the costs of findings."""
_NAMED = 0.05
"""Share of the run from which on a bucket of goodput is named: at a tenth of it the sentence lists every bucket, at
five times it hides a quarter of the run.
"""
_LEAST = 1.0
"""Seconds of cost below which a kind of finding is left out, since the sentence counts in whole seconds."""


def verdict(group: RunGroup) -> str:
    """Return the sentence about one run."""
    total = known_time(group)
    productive = f", {group.spent.get(PRODUCTIVE, 0.0) / total:.0%} productive" if group.spent and total else ""
    costs = [*_costs(group), *_buckets(_unexplained(group), total)]
    rest = "; ".join(costs) if costs else "nothing else cost it time worth a word"
    return f"{length(total)}{productive}; {rest}"


def known_time(group: RunGroup) -> float:
    """Return the seconds of the run of which it is known how they were spent, else those of the recording."""
    return sum(group.spent.values()) or group.end - group.begin


def length(seconds: float) -> str:
    """Return a duration for a manager: `95 s`, `42 min`, `5 h 02 m`, `24 h`."""
    if seconds < 3600:
        return duration(seconds)
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02} m" if minutes else f"{hours} h"


def _costs(group: RunGroup) -> Iterator[str]:
    """Yield the cost of each kind of findings, the most expensive kind first."""
    by_kind: dict[str, list[ReportedFinding]] = {}
    for finding in group.findings:
        if finding.lost >= _LEAST and kind_of(finding.diagnosis).nouns is not None:
            by_kind.setdefault(finding.diagnosis.kind, []).append(finding)
    for findings in sorted(by_kind.values(), key=lambda each: -_lost(each)):
        yield f"{_cost_clause(findings)}{_price(group, _lost(findings))}"


def _cost_clause(findings: Sequence[ReportedFinding]) -> str:
    """Return the cost of the findings of one kind, with the most expensive subject unless all concern the cluster."""
    kind, lost = kind_of(findings[0].diagnosis), length(_lost(findings))
    if all(finding.subjects == (CLUSTER,) for finding in findings):
        return f"{_many(len(findings), kind)} cost {lost}"
    by_subjects: dict[tuple[str, ...], list[ReportedFinding]] = {}
    for finding in findings:
        by_subjects.setdefault(finding.subjects, []).append(finding)
    subjects, own = max(by_subjects.items(), key=lambda item: _lost(item[1]))
    worst = max(own, key=lambda finding: finding.lost)
    cause = IN_A_WORD.get(str(worst.diagnosis.evidence.get("cause")), "")
    named = ", ".join(filter(None, [names_of(subjects), cause if len(subjects) == 1 else ""])) + ","
    are_stragglers = kind.charges is Charge.JOINT_SHARE
    number = len({name for each in by_subjects for name in each}) if are_stragglers else len(findings)
    if len(by_subjects) == 1:
        return f"{_many(number, kind)}, {named} cost {lost}"
    return f"{_many(number, kind)} cost {lost}, the worst {named} {length(_lost(own))}"


def _many(number: int, kind: FindingKind) -> str:
    one, several = kind.nouns or (kind.name, kind.name)
    return f"{number} {one if number == 1 else several}"


def _lost(findings: Sequence[ReportedFinding]) -> float:
    return sum(finding.lost for finding in findings)


def _price(group: RunGroup, seconds: float) -> str:
    price = group.price_of(seconds)
    return f" ({price})" if price else ""


def _unexplained(group: RunGroup) -> Mapping[str, float]:
    """Return the buckets without what findings of the pace are charged with beyond the bucket of stragglers.

    Goodput counts a step's wait for data as input, also where one worker's data come late; the cost of this straggler
    includes it.
    """
    charged = sum(finding.lost for finding in group.findings if kind_of(finding.diagnosis).group is Group.PACE)
    twice, spent = max(0.0, charged - group.spent.get("stragglers", 0.0)), dict(group.spent)
    for bucket in ("input", "unknown"):
        taken = min(twice, spent.get(bucket, 0.0))
        spent[bucket], twice = spent.get(bucket, 0.0) - taken, twice - taken
    return spent


def _buckets(spent: Mapping[str, float], total: float) -> Iterator[str]:
    """Yield the other buckets with much of the time, the largest first."""
    for bucket, seconds in sorted(spent.items(), key=lambda item: -item[1]):
        if bucket in _BUCKETS and seconds >= _NAMED * total:
            yield f"{_BUCKETS[bucket]} took {length(seconds)}"
