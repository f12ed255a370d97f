"""Incidents: what was told of each finding, and whether there is news about it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from tfscale.console.alerts.alert_rule import AlertRule
from tfscale.console.alerts.message import Change
from tfscale.console.analysis.finding_kinds import kind_of
from tfscale.console.analysis.findings import SEVERITIES, STANDING, is_calm
from tfscale.core.records.diagnosis import Diagnosis


@dataclass(slots=True)
class Incident:
    """A finding of one kind about one subject, however often it begins."""

    finding: Diagnosis
    """The finding as it was last seen."""
    is_open: bool = True
    begins: int = 1
    """Begins since the last alert."""
    past: list[Diagnosis] = field(default_factory=list)
    """Findings that have ended since the last alert."""
    first: float = 0.0
    """Time of the first of these begins, Unix seconds."""
    is_told_open: bool = False
    told_severity: str = ""
    """Severity of the last alert about its begin; empty before."""
    told_at: float = 0.0
    """Time of the last alert about its begin, Unix seconds."""
    quiet_until: float = 0.0
    """End of the cool-down, Unix seconds."""
    is_escalated: bool = False

    def see(self, finding: Diagnosis) -> None:
        """Take in how the finding is now."""
        if finding.end is None and not self.is_open:
            self.first = self.first if self.begins else finding.begin
            self.begins += 1
        if finding.end is not None and self.is_open:
            self.past.append(finding)
        self.finding, self.is_open = finding, finding.end is None

    @property
    def is_trifle(self) -> bool:
        """True where it was over before it was told, once, and was not serious."""
        return not self.is_open and self.begins == 1 and _rank(self.finding.severity) < _rank("serious")

    def news(self, at: float) -> Change | None:
        """Return the change to tell, if any."""
        if self.is_told_open:
            if not self.is_open:
                return Change.OVER
            return Change.WORSE if _rank(self.finding.severity) > _rank(self.told_severity) else None
        if at < self.quiet_until or not (self.is_open or self.begins) or self.is_trifle:
            return None
        return Change.BEGAN if self.is_open else Change.OVER

    def is_forgotten(self, at: float, cool_down: float) -> bool:
        """Decide whether nothing of it matters any more."""
        if self.is_open or self.is_told_open or at < self.quiet_until:
            return False
        return not self.begins or (self.is_trifle and at - (self.finding.end or at) >= cool_down)

    def note_told(self, at: float, cool_down: float) -> None:
        """Remember that its state was told."""
        self.is_told_open, self.begins = self.is_open, 0
        self.past.clear()
        if self.is_open:
            self.told_at = at if not self.told_severity else self.told_at or at
            self.told_severity = self.finding.severity
        else:
            self.quiet_until, self.told_severity, self.told_at = at + cool_down, "", 0.0


@dataclass(slots=True)
class Incidents:
    """All incidents of a run by kind and subject."""

    rule: AlertRule
    told_before: set[Hashable] = field(default_factory=set)
    """Keys of what another console, whose work this one goes on with, has told and not told the end of."""
    _by_key: dict[Hashable, Incident] = field(default_factory=dict)

    def known(self, told: Iterable[tuple[str, str]]) -> None:
        """Take in kind and subject of what another console has told."""
        self.told_before |= {_key(kind, subject) for kind, subject in told}

    def note(self, diagnoses: Iterable[Diagnosis], at: float, *, is_past: bool) -> None:
        """Take in the findings of a second; of the past only what becomes of known incidents."""
        present: dict[Hashable, Diagnosis] = {}
        for each in diagnoses:
            key = _key(each.kind, each.subject)
            if each.end is None or key not in present or present[key].end is not None:
                present[key] = each
        for key, finding in present.items():
            incident = self._by_key.get(key)
            if incident is None:
                if key in self.told_before and self._is_grave(finding):
                    self.told_before.discard(key)
                    self._by_key[key] = Incident(finding, begins=0)
                    self._by_key[key].note_told(at, self.rule.cool_down)
                    self._by_key[key].see(finding)
                elif not is_past and self._is_grave(finding):
                    past = [] if finding.end is None else [finding]
                    self._by_key[key] = Incident(finding, finding.end is None, past=past, first=finding.begin)
            elif finding.end is not None or self._is_grave(finding) or incident.is_open:
                incident.see(finding)
        for key, incident in list(self._by_key.items()):
            if incident.is_open and key not in present:
                # Its end was missed: nobody was there to hear of it.
                incident.see(replace(incident.finding, end=at))
            if incident.is_forgotten(at, self.rule.cool_down):
                del self._by_key[key]

    def news(self, at: float) -> Iterator[tuple[Incident, Change]]:
        """Yield the incidents with news."""
        for incident in self._by_key.values():
            if (change := incident.news(at)) is not None:
                yield incident, change

    def lasting(self, at: float) -> Iterator[Incident]:
        """Yield the incidents that are to be escalated."""
        for each in self._by_key.values():
            lasts = each.is_told_open and each.is_open and at - each.told_at >= self.rule.escalate_after
            if lasts and not each.is_escalated:
                yield each

    def _is_grave(self, finding: Diagnosis) -> bool:
        is_told = not (kind_of(finding).is_advice or is_calm(finding))
        return is_told and _rank(finding.severity) >= _rank(self.rule.severity)


def _rank(severity: str) -> int:
    return SEVERITIES.index(severity)


def _key(kind: str, subject: str) -> Hashable:
    """Return the key of an incident: a stillness and the hang that it becomes are one."""
    return "standing" if kind in STANDING else kind, subject
