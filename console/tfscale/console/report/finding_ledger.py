"""Ledger of a run's findings: the worst moment of each, and its cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tfscale.console.analysis.finding_kinds import Charge, first_step, kind_of
from tfscale.console.analysis.findings import SEVERITIES, Findings, by_severity, has_become_a_hang, loss_of
from tfscale.console.analysis.stragglers.straggler_words import told_together
from tfscale.core.cluster.task import subject_order
from tfscale.core.records.diagnosis import Diagnosis

_MINUTE = 60.0
_LONGEST = 10.0
"""Seconds between two evaluations beyond which the time between them counts for no finding: a console that was away
would charge hours to the last finding, and a busy console is late by a few seconds.
"""

Key = tuple[str, str, float]
"""(kind, subject, begin) of a diagnosis."""


@dataclass(frozen=True, slots=True)
class ReportedFinding:
    """Diagnosis of a whole run: its sentence at its worst, and its cost."""

    diagnosis: Diagnosis
    """The diagnosis; of several stragglers with one sentence, the newest's."""
    subjects: tuple[str, ...]
    """The subjects that the sentence is about."""
    lost: float = 0.0
    """Seconds of the cluster that the finding cost; 0 if its cost is not measured in time."""
    worst_at: float | None = None
    """Begin of the finding's most expensive minute, Unix seconds; None without a cost."""
    worst_share: float = 0.0
    """Share of the worst minute that the finding cost, 0 to 1."""

    @property
    def remedy(self) -> str | None:
        """First thing to do about the finding; None if the sentence names it."""
        return first_step(self.diagnosis)


@dataclass(slots=True)
class _Minute:
    """Seconds that were lost in a minute, between `begin` and `end`, Unix seconds."""

    begin: float
    end: float = 0.0
    lost: float = 0.0


@dataclass(slots=True)
class _Entry:
    worst: Diagnosis
    cost: float
    """Share of the time that was lost at the moment of `worst`."""
    last: Diagnosis
    told_at: float
    """Time of the evaluation that has `last`, Unix seconds."""
    minutes: dict[float, _Minute] = field(default_factory=dict)
    """Minutes in which something was lost, by their begin."""

    def lose(self, begin: float, end: float, share: float) -> None:
        """Take in that this share of the time from `begin` to `end`, Unix seconds, was lost."""
        while begin < end and share > 0:
            start = begin // _MINUTE * _MINUTE
            until = min(end, start + _MINUTE)
            minute = self.minutes.setdefault(start, _Minute(begin))
            minute.end, minute.lost = until, minute.lost + share * (until - begin)
            begin = until

    def give_back(self, since: float) -> None:
        """Take back what was lost after `since`, Unix seconds, because another finding is charged with it."""
        for start, minute in list(self.minutes.items()):
            if minute.begin >= since:
                del self.minutes[start]
            elif minute.end > since:
                minute.lost *= (since - minute.begin) / (minute.end - minute.begin)
                minute.end = since

    def reported(self) -> ReportedFinding:
        ended = self.last.end is not None
        reported = replace(self.last, severity=self.worst.severity) if ended else self.worst
        worst_at = max(self.minutes, key=lambda start: self.minutes[start].lost, default=None)
        worst_lost = 0.0 if worst_at is None else self.minutes[worst_at].lost
        lost = sum(minute.lost for minute in self.minutes.values())
        return ReportedFinding(reported, (reported.subject,), lost, worst_at, worst_lost / _MINUTE)


@dataclass(slots=True)
class FindingLedger:
    """Fold of the findings of each second of a run."""

    _entries: dict[Key, _Entry] = field(default_factory=dict)
    _at: float | None = None
    """Time of the last evaluation, Unix seconds."""
    _stood_until: float = 0.0
    """Time up to which a standstill is charged, Unix seconds: a second name of the same standstill is not charged
    again.
    """

    _straggled_until: float = 0.0
    """Time up to which stragglers are charged, Unix seconds: a kind that yields to them is charged from there on."""

    def add(self, at: float, findings: Findings) -> None:
        """Take in the findings at `at`, Unix seconds."""
        shares = dict(_shares(findings))
        watched = self._at if self._at is not None and at - self._at <= _LONGEST else at
        for diagnosis in self._without_continued(findings.diagnoses):
            key, share = _key(diagnosis), shares.get(_key(diagnosis), 0.0)
            cost = _lost(findings) if diagnosis.kind == "straggler" else share
            entry = self._entries.get(key)
            if entry is None:
                # It is noticed some time after it began.
                entry = self._entries[key] = _Entry(diagnosis, cost, diagnosis, at)
                begin = min(self._begin_of_charge(diagnosis), at)
                entry.lose(begin, at, share)
                self._explain(diagnosis, begin)
            else:
                entry.lose(min(watched, self._begin_again(entry, diagnosis, watched)), at, share)
                if diagnosis.end is None and _gravity(diagnosis, cost) >= _gravity(entry.worst, entry.cost):
                    entry.worst, entry.cost = diagnosis, cost
                entry.last, entry.told_at = _ended(diagnosis, entry), at
            if share and kind_of(diagnosis).stops_training:
                self._stood_until = at
            if share and diagnosis.kind == "straggler":
                self._straggled_until = at
        self._at = at

    def _without_continued(self, diagnoses: Sequence[Diagnosis]) -> list[Diagnosis]:
        """Return the diagnoses, without a stillness that goes on as a hang: the hang is charged from its begin on."""
        continued = [diagnosis for diagnosis in diagnoses if has_become_a_hang(diagnosis, diagnoses)]
        for stillness in continued:
            if self._entries.pop(_key(stillness), None) is not None:
                self._stood_until = min(self._stood_until, stillness.begin)
        return [diagnosis for diagnosis in diagnoses if diagnosis not in continued]

    def _explain(self, diagnosis: Diagnosis, begin: float) -> None:
        """Charge a new finding alone, from `begin` on: a kind that yields to it is another name of the same loss."""
        for (kind, subject, since), entry in list(self._entries.items()):
            if diagnosis.kind in kind_of(entry.last).yields_to and kind_of(entry.last).charges is Charge.SHARE:
                entry.give_back(begin)
                if not entry.minutes:
                    del self._entries[kind, subject, since]

    def _begin_of_charge(self, diagnosis: Diagnosis) -> float:
        """Return the time from which on a new diagnosis is charged, Unix seconds."""
        if kind_of(diagnosis).stops_training:
            return max(diagnosis.begin, self._stood_until)
        is_theirs = "straggler" in kind_of(diagnosis).yields_to
        return max(diagnosis.begin, self._straggled_until) if is_theirs else diagnosis.begin

    def _begin_again(self, entry: _Entry, diagnosis: Diagnosis, watched: float) -> float:
        """Return the time from which on an open diagnosis is charged; where it opens again, after its last charge."""
        is_again = entry.last.end is not None and diagnosis.end is None and kind_of(diagnosis).stops_training
        return max(entry.last.end or 0.0, self._stood_until) if is_again else watched

    def lost(self, diagnosis: Diagnosis) -> float | None:
        """Return the seconds that a finding has cost the cluster so far; None if its cost is not measured in time."""
        entry = self._entries.get(_key(diagnosis))
        return None if entry is None or not entry.minutes else entry.reported().lost

    @property
    def findings(self) -> tuple[ReportedFinding, ...]:
        """All findings, the oldest first; at the same moment, the most severe. Stragglers of one sentence are one."""
        reported = [entry.reported() for entry in self._entries.values() if entry.last.kind != "straggler"]
        # One sentence is of one evaluation: a worker that is slow again later is another finding.
        by_evaluation: dict[float, list[Diagnosis]] = {}
        for entry in self._entries.values():
            if entry.last.kind == "straggler":
                by_evaluation.setdefault(entry.told_at, []).append(entry.last)
        reported += [
            _joined([self._entries[_key(one)].reported() for one in each])
            for stragglers in by_evaluation.values()
            for each in told_together(stragglers)
        ]
        return tuple(sorted(reported, key=lambda each: (each.diagnosis.begin, by_severity(each.diagnosis))))


def _joined(findings: Sequence[ReportedFinding]) -> ReportedFinding:
    """Return stragglers of one sentence, the newest first, as one finding."""
    worst = max(findings, key=lambda finding: finding.worst_share)
    subjects = sorted((finding.diagnosis.subject for finding in findings), key=subject_order)
    severity = max((finding.diagnosis.severity for finding in findings), key=SEVERITIES.index)
    return ReportedFinding(
        replace(findings[0].diagnosis, severity=severity),
        tuple(subjects),
        sum(finding.lost for finding in findings),
        worst.worst_at,
        sum(finding.worst_share for finding in findings if finding.worst_at == worst.worst_at),
    )


def _ended(diagnosis: Diagnosis, entry: _Entry) -> Diagnosis:
    """Return a diagnosis unchanged, or its worst moment's if its last sentence is only about its end."""
    if entry.last.end is not None and diagnosis.end is not None:
        return entry.last
    if diagnosis.end is not None and kind_of(diagnosis).is_over is not None:
        return replace(entry.worst, end=diagnosis.end)
    return diagnosis


def _key(diagnosis: Diagnosis) -> Key:
    return diagnosis.kind, diagnosis.subject, diagnosis.begin


def _gravity(diagnosis: Diagnosis, cost: float) -> tuple[int, float]:
    return SEVERITIES.index(diagnosis.severity), cost


def _shares(findings: Findings) -> Iterator[tuple[Key, float]]:
    """Yield the share of time that each open diagnosis costs now; together at most 1, or their joint cost."""
    diagnoses = [diagnosis for diagnosis in findings.diagnoses if diagnosis.end is None]
    if not findings.condition.may_be_judged:
        stop = next((diagnosis for diagnosis in diagnoses if kind_of(diagnosis).stops_training), None)
        if stop is not None:
            yield _key(stop), 1.0
        return
    if (worthless := next((each for each in diagnoses if kind_of(each).charges is Charge.WORTHLESS), None)) is not None:
        yield _key(worthless), 1.0
        return
    stragglers = [diagnosis for diagnosis in diagnoses if kind_of(diagnosis).charges is Charge.JOINT_SHARE]
    joint = _lost(findings)
    weights = [max((diagnosis.number("slowdown") or 0.0) - 1, 1e-3) for diagnosis in stragglers]
    for diagnosis, weight in zip(stragglers, weights, strict=True):
        yield _key(diagnosis), joint * weight / sum(weights)
    for diagnosis in diagnoses:
        if kind_of(diagnosis).charges is Charge.SHARE and not (
            stragglers and "straggler" in kind_of(diagnosis).yields_to
        ):
            yield _key(diagnosis), loss_of(diagnosis) or 0.0


def _lost(findings: Findings) -> float:
    """Return the share of the time that all stragglers cost together."""
    return 1 - 1 / max(findings.slowdown or 1.0, 1.0)
