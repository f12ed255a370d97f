"""News of the watched runs: lines of the log, and alerts, of what happens now."""

from __future__ import annotations

import logging
from pathlib import Path

from tfscale.console.alerts.message import over_text
from tfscale.console.alerts.run_alerts import RunAlerts
from tfscale.console.analysis.findings import one_each
from tfscale.console.ending.run_memory import RunMemory
from tfscale.console.engine.events import CommandProgressed, Event, PolicyTold
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.timeline.event_text import progress_text
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.task_status import Stage

_logger = logging.getLogger(__name__)

_TOLD = (Stage.PLANNED, Stage.DONE, Stage.FAILED)
"""Stages of a restart by the policy that the log tells: each task's own are in the events."""


class RunNews:
    """Teller of one cluster's news to the log, and to the notifier that all clusters share."""

    def __init__(self, alerts: RunAlerts) -> None:
        self._alerts = alerts
        self._memory = RunMemory()
        self._was_outdated = False
        """True where the snapshot before told of the past."""
        self._known: set[tuple[str, str]] = set()
        """Kind and subject of what a watch before has told, and this one has not found so far."""
        self._ended: list[Diagnosis] = []
        """Ends of these in the past."""

    def begin(self, folder: Path, *, is_new: bool) -> None:
        """Take in the folder of the run that is recorded now; a new run has cost nothing so far."""
        self._alerts.recording, self._alerts.knows_all = folder, is_new
        if is_new:
            self._memory = RunMemory()

    def event_folded(self, event: Event) -> None:
        self._memory.fold(event)
        self._alerts.event_folded(event)
        if isinstance(event, PolicyTold):
            _logger.info("%s", event.message, extra={"task": str(event.task)})
        elif isinstance(event, CommandProgressed) and event.stage in _TOLD:
            _logger.info("%s", progress_text(event))

    def known(self, told: frozenset[tuple[str, str]]) -> None:
        """Take in what a watch before has told of this run, which is no news; its end is."""
        self._known = set(told)
        self._alerts.known(told)

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        """Tell of what has changed; of the past only what is still open."""
        self._memory.add(snapshot)
        self._alerts.snapshot_taken(snapshot, self._memory)
        was_outdated, self._was_outdated = self._was_outdated, snapshot.is_outdated
        if snapshot.is_outdated:
            self._ended += [each for each in snapshot.changes if each.end is not None]
            return
        present = [each for each in snapshot.findings.diagnoses if each.end is None]
        changes = [*self._ended_of_known(present), *present] if was_outdated else snapshot.changes
        news = [each for each in changes if not self._is_known(each)]
        for diagnosis in one_each(news):
            said = diagnosis.sentence if diagnosis.end is None else f"over: {over_text(diagnosis)}"
            _logger.info("%s", said)

    def untold(self) -> list[tuple[Diagnosis, bool]]:
        """List findings whose alert waits, each with whether that is about its end."""
        return self._alerts.untold()

    def finish(self) -> None:
        """Send the alerts that were gathered so far: the watch ends."""
        self._alerts.finish(self._memory)

    def _is_known(self, diagnosis: Diagnosis) -> bool:
        """Decide whether a watch before has told the begin of a diagnosis: that is no news once."""
        key = diagnosis.kind, diagnosis.subject
        if diagnosis.end is not None or key not in self._known:
            return False
        self._known.discard(key)
        return True

    def _ended_of_known(self, present: list[Diagnosis]) -> list[Diagnosis]:
        """Return the ends, in the past, of what a watch before has told."""
        still = {(each.kind, each.subject) for each in present}
        ended = {(each.kind, each.subject): each for each in self._ended}
        self._ended = []
        return [each for key, each in ended.items() if key in self._known and key not in still]
