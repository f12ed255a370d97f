"""Message that receivers get: one alert or several that came together."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tfscale.console.analysis.evidence_text import evidence_items
from tfscale.console.analysis.finding_kinds import NOT_JUDGED, first_step, kind_of
from tfscale.console.analysis.findings import SEVERITIES, loss_of
from tfscale.console.engine.timeline.event_text import end_text
from tfscale.console.export.rows import diagnosis_fields
from tfscale.core.cluster.task import CLUSTER
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.core.text import bounded, clock, elapsed, percent, printable
from tfscale.core.wire.json_records import Json

TITLE = 60
"""Most characters of a title: the first line of a phone's notification."""
_MOST = 5
"""Alerts that a message tells in full."""
_MOST_EVIDENCE = 6
"""Numbers of evidence that an alert tells: what a phone shows at once."""
_LONGEST = 80
"""Characters of one part of the evidence: of 999 who followed a crash the first stand for all."""
_LEAST_COST = 0.5
"""Seconds below which an ended finding has no cost worth a word."""


class Change(StrEnum):
    """News of an alert."""

    BEGAN = "began"
    WORSE = "worse"
    """Its severity has risen."""
    LASTS = "lasts"
    """It still holds after the time of escalation."""
    OVER = "over"
    SILENT = "silent"
    """Nothing is heard from the run."""
    HEARD = "heard"
    """The run is heard again."""
    ENDED = "ended"
    """The run is over."""
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Alert:
    """One piece of news about a run."""

    run: str
    at: float
    """Time of the news, Unix seconds."""
    change: Change
    severity: str
    """Severity as in `Diagnosis`."""
    name: str
    """The news in a few words, for a title."""
    text: str
    """The news in sentences, a line each."""
    finding: Diagnosis | None = None
    times: int = 1
    """How often the finding has begun since the last alert about it, or since it is known."""
    cost: float | None = None
    """Seconds of the training that an ended finding has cost; None where its cost is not measured in time."""

    def line(self, command: str) -> Json:
        """Return the alert as a JSON object for programs; `command` shows the run."""
        fields = {} if self.finding is None else diagnosis_fields(self.finding)
        return {
            "type": "alert", "schema": SCHEMA_VERSION, "time": self.at, "run": self.run, "change": str(self.change),
            "title": titled(self.name, self.run), "text": self.text, "times": self.times, "lost": self.cost,
            "command": command, **fields, "severity": self.severity,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Message:
    """Alerts that are told together, the gravest first."""

    alerts: tuple[Alert, ...]
    command: str
    """Line with the command that shows the run; empty where there is none."""
    title: str
    text: str

    @property
    def severity(self) -> str:
        return self.alerts[0].severity

    @property
    def is_good(self) -> bool:
        """True where nothing in it is trouble that lasts."""
        return all(alert.change in (Change.OVER, Change.HEARD) or alert.severity == "info" for alert in self.alerts)

    def apart(self) -> tuple[Message, ...]:
        """Return a message for each alert."""
        return tuple(message([alert], self.command) for alert in self.alerts)

    def after(self, missed: Sequence[str]) -> Message:
        """Return the message with the titles of those before that did not arrive."""
        if not missed:
            return self
        return replace(self, text=f"{self.text}\nDid not arrive before: {'; '.join(missed)}")


def message(alerts: Iterable[Alert], command: str, progress: str = "") -> Message:
    """Return alerts, at least one, as a message; `progress` says how far the training is."""
    ordered = tuple(sorted(alerts, key=_weight))
    first, others = ordered[0], len(ordered) - 1
    texts = [alert.text for alert in ordered[:_MOST]]
    if len(ordered) > _MOST:
        texts.append(f"and {len(ordered) - _MOST} more: {'; '.join(alert.name for alert in ordered[_MOST:])}"[:500])
    if progress and first.change is not Change.ENDED:
        texts.append(f"Progress: {progress}")
    if command:
        texts.append(f"{command}")
    name = first.name if not others or first.change is Change.ENDED else f"{first.name}, and {others} more"
    return Message(ordered, command, titled(name, first.run), "\n".join(texts))


def command_line(*words: object) -> str:
    """Return the line with a command of the console on this host."""
    return f"On {socket.gethostname()}: {shlex.join(['tfscale-console', *map(str, words)])}"


def _weight(alert: Alert) -> tuple[bool, bool, int, float]:
    """Return a sort key: the end of the run, then trouble that lasts, the gravest first."""
    is_over = alert.change in (Change.OVER, Change.HEARD)
    return alert.change is not Change.ENDED, is_over, -SEVERITIES.index(alert.severity), alert.at


def titled(name: str, run: str) -> str:
    """Return a title of at most `TITLE` characters: the news, and the run as far as there is room."""
    name, run = printable(name), printable(run)
    if len(name) + len(run) + 3 <= TITLE:
        return f"{name} [{run}]"
    room = TITLE - len(name) - 6
    return f"{name} [{run[:room]}...]" if room >= 4 else name if len(name) <= TITLE else f"{name[: TITLE - 3]}..."


def finding_alert(
    run: str,
    at: float,
    change: Change,
    finding: Diagnosis,
    *,
    cost: float | None = None,
    times: int = 1,
    since: float = 0.0,
) -> Alert:
    """Return the alert about a finding, which has begun so many `times` since then, Unix seconds.

    `cost` is in seconds of the training.
    """
    short = _short(finding)
    again = f" It has begun {times} times since {clock(since)}." if times > 1 else ""
    if finding.end is not None:
        is_known = NOT_JUDGED not in finding.evidence
        lasted = elapsed(finding.end - finding.begin)
        name = f"over: {short}, {lasted}" if is_known else f"no longer judged: {short}"
        what = "Together they" if times > 1 else "It"
        lost = f" {what} cost {elapsed(cost)} of the training." if cost is not None and cost >= _LEAST_COST else ""
        told = _sentence(over_text(finding))
        # Who was not told of the begin does not know what it was.
        if times and finding.sentence.rstrip(".") != over_text(finding).rstrip("."):
            told = f"{_sentence(finding.sentence)}\n{told}"
        text = f"{told}{again}{lost}"
        return Alert(run, at, change, "info", name=name, text=text, finding=finding, times=times, cost=cost)
    loss = loss_of(finding)
    share = f", {percent(loss)} lost" if loss is not None and loss >= 0.01 else ""
    lines = [f"{finding.severity}: {_sentence(finding.sentence)}{again}"]
    if (step := first_step(finding)) is not None:
        lines.append(f"To do: {step}.")
    facts = [f"{name} {bounded(value, _LONGEST)}" for name, value in evidence_items(finding) if "\n" not in value]
    if facts:
        lines.append(f"Evidence: {', '.join(facts[:_MOST_EVIDENCE])}")
    if change is Change.LASTS:
        lines.insert(0, f"It has lasted for {elapsed(at - finding.begin)}.")
    prefix = f"{change}: " if change in (Change.WORSE, Change.LASTS) else ""
    name, text = f"{prefix}{short}{share}", "\n".join(lines)
    return Alert(run, at, change, finding.severity, name=name, text=text, finding=finding, times=times, cost=cost)


def over_text(finding: Diagnosis) -> str:
    """Return the end of a finding as one line that names whom it was about."""
    sentence = end_text(finding)
    return sentence if finding.subject in sentence else f"{_short(finding)}: {sentence}"


def _short(finding: Diagnosis) -> str:
    """Return a finding in a few words: `worker:1 slow`, `worker:1 and 15 more slow`, `slowdown`."""
    word = kind_of(finding).word
    others = len(finding.together) - 1
    who = finding.subject if others < 1 else f"{finding.together[0]} and {others} more"
    return word if who == CLUSTER else f"{who} {word}"


def _sentence(text: str) -> str:
    return f"{text.rstrip('.')}."
