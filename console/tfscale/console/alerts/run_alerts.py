"""Alerts of one run: what is told of it, when, and together with what."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

from tfscale.console.alerts.alert_rule import AlertRule
from tfscale.console.alerts.incidents import Incident, Incidents
from tfscale.console.alerts.message import Alert, Change, Message, command_line, finding_alert, message
from tfscale.console.alerts.notifier import Notifier
from tfscale.console.analysis.findings import sentence_key
from tfscale.console.ending.end_card import end_card, is_over, manner_of_end
from tfscale.console.ending.run_memory import RunMemory
from tfscale.console.engine.events import Event, FrameArrived
from tfscale.console.engine.model import Snapshot
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.text import clock, elapsed, progress_words, step_rate

GATHERS = 5.0
"""Seconds after a finding's begin, or end, in which its news waits for others: the ends of those who followed a crash
come within 2 s."""
GATHERS_KNOWN = 2.0
"""Seconds of it where that is longer ago: a straggler or a standstill took ten seconds to be found."""
GATHERS_MANY = 60.0
"""Seconds of it after `_MANY` messages within `_LATELY`: an hour of a flapping cluster is 60 messages, not 700."""
_MANY, _LATELY = 6, 600.0
LONG_AGO = 600.0
"""Seconds after its end from which on a run that a console finds ended is no news: a service that is started again
after a crash of its own tells an end that it missed."""
_WIDE = 1_000
"""Characters of a line of an end card: phones break lines themselves."""
_LONGEST = 5.0
"""Seconds of silence that one snapshot counts at most: a console that slept for hours did not listen."""


class RunAlerts:
    """Listener that tells news of one run by its snapshots; the clock is that of the snapshots."""

    def __init__(
        self,
        notifier: Notifier,
        rule: AlertRule = AlertRule(),  # noqa: B008 - frozen
        *,
        command: str = "",
        recording: Path | None = None,
    ) -> None:
        """Tell by `notifier`; `command` is the line that shows the run, `recording` the file that has it."""
        self.notifier, self._rule = notifier, rule
        self.command, self.recording = command, recording
        self.knows_all = True
        """False where the memory lacks the begin of the run: then its end has no card."""
        self._incidents = Incidents(rule)
        self._due: float | None = None
        """Time at which the gathered news is told, Unix seconds; None without news."""
        self._sent: deque[float] = deque()
        """Times of the messages of late."""
        self._heard: float | None = None
        """Arrival of the newest frame, Unix seconds; None before any."""
        self._silent = 0.0
        """Seconds of the console's presence without a frame."""
        self._is_told_silent = False
        self._at = 0.0
        """Time of the newest snapshot, Unix seconds; 0 before."""
        self._newest: Snapshot | None = None
        self._was_running: bool | None = None
        """True once the run was seen running, and its end has not been told; None before it was seen at present."""
        self._is_news = False
        """True where what a run that is over has ended with is news."""
        self._others: list[Alert] = []
        """News to tell that is about no finding."""

    def known(self, told: Iterable[tuple[str, str]]) -> None:
        """Take in kind and subject of what another console has told of this run: its begin is no news, its end is."""
        self._incidents.known(told)

    def event_folded(self, event: Event) -> None:
        if isinstance(event, FrameArrived):
            self._heard = max(event.at, self._heard or 0.0)
            self._silent = 0.0

    def snapshot_taken(self, snapshot: Snapshot, memory: RunMemory) -> None:
        """Take in a snapshot, after `memory` has."""
        at, self._newest = snapshot.at, snapshot
        if not snapshot.is_outdated:
            self._note_end(snapshot, memory)
        # A run that was over before the console came is no news, nor is what it ended with.
        is_past = snapshot.is_outdated or (is_over(snapshot) and not self._is_news)
        self._incidents.note(snapshot.findings.diagnoses, at, is_past=is_past)
        self._note_silence(snapshot)
        if snapshot.is_outdated:
            return
        news = [*self._incidents.news(at)]
        if self._due is None and (self._others or news):
            self._due = at + self._patience(at, news)
        if self._due is not None and at >= self._due:
            self._tell(snapshot, memory)
        self._escalate(snapshot, memory)

    def untold(self) -> list[tuple[Diagnosis, bool]]:
        """List findings with news that waits to be told, each with whether it is about its end."""
        return [(incident.finding, change is Change.OVER) for incident, change in self._incidents.news(self._at)]

    def finish(self, memory: RunMemory) -> None:
        """Tell what was gathered so far: the console ends."""
        if self._due is not None and self._newest is not None:
            self._tell(self._newest, memory)

    def _patience(self, at: float, news: Sequence[tuple[Incident, Change]]) -> float:
        """Return the seconds for which news of findings, or other news, waits for more."""
        while self._sent and at - self._sent[0] > _LATELY:
            self._sent.popleft()
        if len(self._sent) >= _MANY:
            return GATHERS_MANY
        moments = [incident.finding.end or incident.finding.begin for incident, _ in news]
        newest = at if self._others else max(moments)
        return max(GATHERS_KNOWN, GATHERS - (at - newest))

    def _tell(self, snapshot: Snapshot, memory: RunMemory) -> None:
        at = snapshot.at
        news = list(self._incidents.news(at))
        alerts = [*self._others, *_alerts(snapshot, news, memory)]
        ended = [each for each in news if each[0].is_escalated and each[1] is Change.OVER]
        if ended:
            self.notifier.escalate(self._message(snapshot, _alerts(snapshot, ended, memory)))
        for incident, _ in news:
            incident.note_told(at, self._rule.cool_down)
            incident.is_escalated = incident.is_escalated and incident.is_open
        self._others, self._due = [], None
        if alerts:
            self._sent.append(at)
            self.notifier.send(self._message(snapshot, alerts))

    def _message(self, snapshot: Snapshot, alerts: Sequence[Alert]) -> Message:
        known, rate, command = snapshot.progress, snapshot.findings.steps_per_second, self.command
        words = progress_words(known, snapshot.at) if known is not None else ""
        if known is not None and known.share_done is None and words and rate:
            words += f", {step_rate(rate)}"
        if self.recording is not None and any(alert.change is Change.ENDED for alert in alerts):
            command = command_line("replay", self.recording)  # its agents may have ended with it
        return message(alerts, command, words)

    def _escalate(self, snapshot: Snapshot, memory: RunMemory) -> None:
        if not self.notifier.has_escalation:
            return
        lasting = list(self._incidents.lasting(snapshot.at))
        if lasting:
            alerts = _alerts(snapshot, [(each, Change.LASTS) for each in lasting], memory)
            self.notifier.escalate(self._message(snapshot, alerts))
        for incident in lasting:
            incident.is_escalated = True

    def _note_silence(self, snapshot: Snapshot) -> None:
        """Tell once that nothing was heard for long, unless the run is over, and once that it is heard again."""
        at = snapshot.at
        self._silent += min(max(at - self._at, 0.0), _LONGEST) if self._at else 0.0
        self._at = at
        if self._heard is None or snapshot.is_outdated or is_over(snapshot):
            return
        silence = elapsed(self._silent)
        if self._silent >= self._rule.silence and not self._is_told_silent:
            self._is_told_silent = True
            text = f"critical: nothing has been heard from the run since {clock(self._heard)}, for {silence}."
            if snapshot.findings.headline:
                text += f"\nThe console says: {snapshot.findings.headline}"
            name = f"nothing heard for {silence}"
            self._others.append(Alert(snapshot.run, at, Change.SILENT, "critical", name, text))
        elif self._is_told_silent and self._silent < _LONGEST:
            self._is_told_silent = False
            text = f"The run is heard again. It is now: {snapshot.findings.headline}"
            self._others.append(Alert(snapshot.run, at, Change.HEARD, "info", "heard again", text))

    def _note_end(self, snapshot: Snapshot, memory: RunMemory) -> None:
        """Tell how the run has ended, if it was seen running."""
        if not is_over(snapshot):
            self._was_running = self._is_news = bool(self._was_running) or snapshot.up > 0
            return
        ended_at = max(
            (view.status.exit.at for view in snapshot.tasks if view.status and view.status.exit), default=0.0
        )
        is_new = self._was_running is None and snapshot.at - ended_at < LONG_AGO
        if not (self._was_running or is_new):
            self._was_running = False
            return
        self._was_running, self._is_news = False, True
        how, is_well = manner_of_end(snapshot)
        card = end_card(snapshot, memory, self.recording) if self.knows_all else None
        text = "\n".join(card.lines(_WIDE) if card else [f"{snapshot.run}: {how}"])
        if card is None and self.recording is not None:
            text += f"\nReport: tfscale-console report {self.recording}"
        text += f"\nEnded at {clock(ended_at)}." if ended_at else ""
        severity = "info" if is_well else "critical"
        self._others.append(Alert(snapshot.run, snapshot.at, Change.ENDED, severity, f"ended: {how}", text))


def _alerts(snapshot: Snapshot, news: Iterable[tuple[Incident, Change]], memory: RunMemory) -> list[Alert]:
    """Return one alert for each sentence, which several stragglers share."""
    by_sentence: dict[tuple[Change, object], list[Incident]] = {}
    for incident, change in news:
        by_sentence.setdefault((change, sentence_key(incident.finding)), []).append(incident)
    return [_alert(snapshot, key[0], together, memory) for key, together in by_sentence.items()]


def _alert(snapshot: Snapshot, change: Change, together: Sequence[Incident], memory: RunMemory) -> Alert:
    """Return the alert about incidents that share a sentence: their costs are added."""
    most = max(together, key=lambda each: each.begins)
    past = [finding for each in together for finding in each.past if change is Change.OVER]
    costs = [cost for finding in past if (cost := memory.ledger.lost(finding)) is not None]
    cost = sum(costs) if costs else None
    return finding_alert(
        snapshot.run, snapshot.at, change, together[0].finding, cost=cost, times=most.begins, since=most.first
    )
