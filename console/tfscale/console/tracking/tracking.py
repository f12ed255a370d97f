"""Tracking of a run: every ten seconds its numbers go to the trackers, which must not hold up the console."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Sequence
from contextlib import suppress

from tfscale.console.engine.events import Event
from tfscale.console.engine.model import Snapshot
from tfscale.console.tracking.run_series import Moment, moment_of
from tfscale.console.tracking.tracker import (
    Destination,
    Tracker,
    TrackerError,
    check_installed,
    explained,
    open_tracker,
)
from tfscale.core.records.frame import Frame
from tfscale.core.records.probe_status import ProbeState
from tfscale.core.text import plural

_logger = logging.getLogger(__name__)
PERIOD = 10.0
"""Seconds between two moments (chosen: MLflow's own metrics of a system come every 10, those of W&B every 15)."""
_MEASURED_WITHIN = 120.0
"""Seconds in which a process is expected to report, and its run in a tracker to be known with it."""
_MOST_WAITING = 100
"""Moments that wait for a tracker that is slow or away: a quarter of an hour. The oldest is left out for the next."""
_LAST_PATIENCE = 60.0
"""Seconds for the last moments to reach the trackers when the console ends."""


class Tracking:
    """Feeder of trackers from the snapshots of one run."""

    def __init__(self, destinations: Sequence[Destination], *, is_live: bool = True) -> None:
        """Leave moments out where a tracker is slow and the run live. Raises UsageError where a library is missing."""
        check_installed(destinations)
        self._feeders = [_Feeder(each, is_live=is_live) for each in destinations]
        self._first: float | None = None
        self._due = -float("inf")
        self._newest: Snapshot | None = None
        """Newest snapshot, while it was left out."""

    @property
    def has_failed(self) -> bool:
        """True once a tracker has failed."""
        return any(feeder.has_failed for feeder in self._feeders)

    def event_folded(self, event: Event) -> None:
        """Do nothing: the numbers are those of snapshots."""

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        """Take in a snapshot; those between two periods are left out."""
        if not self._feeders:
            return
        self._first = snapshot.at if self._first is None else self._first
        is_known = any(_is_measured(view.frame) for view in snapshot.tasks)
        if not is_known and snapshot.at < self._first + _MEASURED_WITHIN:
            return
        if snapshot.at < self._due:
            self._newest = snapshot
        else:
            self._due = snapshot.at + PERIOD
            self._put(snapshot)

    def _put(self, snapshot: Snapshot) -> None:
        self._newest = None
        moment = moment_of(snapshot)
        for feeder in self._feeders:
            feeder.put(moment, snapshot)

    def close(self, *, is_patient: bool = True) -> None:
        """Have the trackers take what is left, up to the newest snapshot; wait for it if patient."""
        if self._newest is not None:
            self._put(self._newest)
        for feeder in self._feeders:
            feeder.end()
        for feeder in self._feeders if is_patient else ():
            feeder.wait()


def _is_measured(frame: Frame | None) -> bool:
    return frame is not None and frame.probe is not None and frame.probe.state is ProbeState.MEASURING


class _Feeder:
    """Thread that feeds one tracker: its library may wait for a server."""

    def __init__(self, destination: Destination, *, is_live: bool) -> None:
        self._destination, self._is_live = destination, is_live
        self._name = f"--track {destination}" if is_live else f"--format {destination.kind}"
        self._moments: queue.Queue[tuple[Moment, str, str] | None] = queue.Queue(_MOST_WAITING)
        self._thread = threading.Thread(target=self._run, name=f"track {destination}", daemon=True)
        self._left_out = 0
        self._is_lost = False
        self.has_failed = False

    def put(self, moment: Moment, snapshot: Snapshot) -> None:
        if self._thread.ident is None:
            self._thread.start()
        self._put((moment, snapshot.run, run_in(self._destination.kind, snapshot)))

    def _put(self, given: tuple[Moment, str, str] | None) -> None:
        while self._is_live and self._moments.full():
            with suppress(queue.Empty):
                self._moments.get_nowait()
                self._left_out += 1
        self._moments.put(given)

    def end(self) -> None:
        """Have the thread end after what was put."""
        self._put(None)

    def wait(self) -> None:
        """Wait until the thread has ended, and tell what it has left out."""
        if self._thread.ident is None:
            return
        self._thread.join(_LAST_PATIENCE if self._is_live else None)
        if self._thread.is_alive():
            _logger.error("%s: has not taken the last moments within %g s", self._name, _LAST_PATIENCE)
        if self._left_out:
            _logger.warning("%s: %s left out", self._name, plural(self._left_out, "moment"))

    def _run(self) -> None:
        tracker: Tracker | None = None
        while (given := self._moments.get()) is not None:
            moment, run, found = given
            try:
                if tracker is None:
                    tracker = open_tracker(self._destination, run, found)
                    _logger.info("%s: the numbers go to %s", self._name, tracker.where)
                explained(self._destination.kind, tracker.write, moment)
                self._is_lost = False
            except TrackerError as error:
                self._tell(error)
        if tracker is not None:
            try:
                explained(self._destination.kind, tracker.close)
            except TrackerError as error:
                self._tell(error)

    def _tell(self, error: TrackerError) -> None:
        """Log the first failure in a row: a server that is away fails every time."""
        if not self._is_lost:
            _logger.error("%s: %s; what comes meanwhile is lost", self._name, error)
        self._is_lost = self.has_failed = True


def run_in(kind: str, snapshot: Snapshot) -> str:
    """Return the id of the script's run in a tracker, by the first task that has told one; empty where none has."""
    probes = (view.frame.probe for view in snapshot.tasks if view.frame is not None and view.frame.probe is not None)
    told = (name.partition(":") for probe in probes for name in probe.tracked_runs)
    return next((identity for told_kind, _, identity in told if told_kind == kind), "")
