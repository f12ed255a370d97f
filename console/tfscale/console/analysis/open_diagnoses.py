"""Memory of open diagnoses: the rules return only present findings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from tfscale.console.analysis.finding_kinds import NOT_JUDGED, Group, kind_of
from tfscale.console.analysis.findings import SEVERITIES
from tfscale.console.analysis.past_straggler import PastStraggler, past_tense
from tfscale.console.analysis.stragglers.straggler_words import told_together
from tfscale.core.records.diagnosis import Diagnosis

_Key = tuple[str, str, float]


@dataclass(slots=True)
class _Open:
    diagnosis: Diagnosis
    worst: Diagnosis
    """First of the most severe diagnoses since it was opened."""
    past: PastStraggler | None
    """Sums of a straggler's figures so far; None for other kinds."""

    def ended(self, end: float, not_judged: str | None) -> Diagnosis:
        """Return the ended diagnosis with the words and the severity of its worst moment.

        The evidence has the reason if it ended only because it is `not_judged`.
        """
        if self.past is not None:
            over = self.past.over(replace(self.diagnosis, severity=self.worst.severity), end)
        else:
            over = replace(self.worst, begin=self.diagnosis.begin, end=end)
        return over if not_judged is None else replace(over, evidence={**over.evidence, NOT_JUDGED: not_judged})


@dataclass(slots=True)
class OpenDiagnoses:
    """The open diagnoses by kind and subject (crashes by time as well: a task can crash again)."""

    _open: dict[_Key, _Open] = field(default_factory=dict)

    def update(
        self,
        current: Iterable[Diagnosis],
        now: float,
        recovered: Mapping[str, float] | None = None,
        still_since: float | None = None,
        not_judged: Mapping[Group, str] | None = None,
        why_not_over: Callable[[Diagnosis], str | None] = lambda _: None,
    ) -> tuple[Diagnosis, ...]:
        """Return the open diagnoses, each with its first begin, and the diagnoses that have just ended.

        A diagnosis ends at `now`; a straggler that has `recovered` ends at its time there (Unix seconds, by subject); a
        finding on the pace of a cluster without steps since `still_since` ends then. `not_judged` has the reason why
        findings of a group are not judged, and `why_not_over` returns that of one finding: keys of `NOT_JUDGED_WHY`.
        """
        held: dict[_Key, _Open] = {}
        current = list(current)
        told_at_their_end = [diagnosis for diagnosis in current if diagnosis.end is not None]
        for diagnosis in (each for each in current if each.end is None):
            key = (diagnosis.kind, diagnosis.subject, diagnosis.begin if diagnosis.kind == "crash" else 0.0)
            held[key] = _held(self._open.get(key), diagnosis)
        since = recovered or {}
        kinds = {each.diagnosis.kind for each in held.values()}
        ended = [
            before.ended(
                since.get(before.diagnosis.subject, _end_of(before.diagnosis, now, still_since)),
                None
                if before.diagnosis.subject in since
                else _not_judged(before.diagnosis, kinds, not_judged or {}) or why_not_over(before.diagnosis),
            )
            for key, before in self._open.items()
            if key not in held
        ]
        self._open = held
        past = [
            straggler
            for each in told_together([over for over in ended if over.kind == "straggler"])
            for straggler in past_tense(each, all(over.subject in since for over in each))
        ]
        others = [over for over in ended if over.kind != "straggler"]
        return (*(each.diagnosis for each in held.values()), *others, *past, *told_at_their_end)


def _end_of(diagnosis: Diagnosis, now: float, still_since: float | None) -> float:
    if still_since is None or kind_of(diagnosis).group is not Group.PACE:
        return now
    return min(now, max(diagnosis.begin, still_since))


def _not_judged(diagnosis: Diagnosis, kinds: Collection[str], groups: Mapping[Group, str]) -> str | None:
    """Return why a diagnosis that ends is not judged beside open ones of these `kinds`; None where it is over."""
    kind = kind_of(diagnosis)
    return groups.get(kind.group) or next((other for other in kind.yields_to if other in kinds), None)


def _held(before: _Open | None, diagnosis: Diagnosis) -> _Open:
    if before is None:
        held = _Open(diagnosis, diagnosis, PastStraggler() if diagnosis.kind == "straggler" else None)
    else:
        noticed = before.diagnosis.evidence.keys() & {"noticed"}
        evidence = {**diagnosis.evidence, **{name: before.diagnosis.evidence[name] for name in noticed}}
        current = replace(diagnosis, begin=before.diagnosis.begin, evidence=evidence)
        is_worse = SEVERITIES.index(current.severity) > SEVERITIES.index(before.worst.severity)
        held = _Open(current, current if is_worse else before.worst, before.past)
    if held.past is not None:
        held.past.add(held.diagnosis)
    return held
