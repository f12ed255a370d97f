"""Watch over one cluster: what it sends is recorded and told, run by run; each run has a folder."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tfscale.console.ending.end_card import manner_of_end
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import AgentDescribed, Event, LinkChanged, LinkState, SecondPassed
from tfscale.console.engine.model import Snapshot, TaskView
from tfscale.console.engine.timeline.past import Past, PastError
from tfscale.console.metrics.run_metrics import RunMetrics
from tfscale.console.recording.recording_writer import ActiveRecording
from tfscale.console.tracking.tracker import Destination
from tfscale.console.tracking.tracking import Tracking
from tfscale.console.watch.past_file import PastKeeper, read_past
from tfscale.console.watch.run_catalogue import RunCatalogue
from tfscale.console.watch.run_folder import RunFolder
from tfscale.console.watch.run_news import RunNews
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Task
from tfscale.core.errors import TfscaleError
from tfscale.core.text import moment

_logger = logging.getLogger(__name__)
SETTLED = 10.0
"""Seconds in which no task runs or is about to, after which a run has ended: an operator's restart takes less."""
UNHEARD = 900.0
"""Seconds without any agent after which a run has ended as far as is known: a cut of the network is mostly shorter."""
_SLEW = 60.0
"""Seconds by which a recording may be ahead of the clock, which is set back by less each day somewhere."""
_JUDGED = 3
"""Snapshots after which it is another run than the recorded one, though some agents have not been heard so far."""


class ClusterWatch:
    """Listener of the engine of one cluster. `report` has the report of a run's folder written, later."""

    def __init__(
        self, spec: ClusterSpec, catalogue: RunCatalogue, news: RunNews, report: Callable[[Path], None]
    ) -> None:
        self.spec = spec
        self._catalogue, self._news, self._report = catalogue, news, report
        self._tape = ActiveRecording(spec)
        self._before = self._not_to_come(catalogue.newest(spec, self._tape))
        """Folder of the run before, which may be the present one, until that is known."""
        self._is_undecided = self._before is not None
        """True until it is known whether what is heard is the run of which a watch before has told."""
        self._folder: RunFolder | None = None
        """Folder of the run that is recorded."""
        self._unwritten: list[Event] = []
        """Events since the last moment at which nothing ran: the begin of the next run."""
        self._links: dict[tuple[type, Task], Event] = {}
        """Newest connections and agents from before these."""
        self.past = self._past_before()
        """Past of the run that may be the present one, as a watch before has kept it; None without any."""
        self._keeper: PastKeeper | None = None
        """Writer of the past of the run that is recorded."""
        self._judged = 0
        self._over_since: float | None = None
        self._silent_since: float | None = None
        self.is_gone = False
        """True once the place in which the cluster was found has it no more."""
        self.newest: Snapshot | None = None
        self.metrics: RunMetrics | None = None
        """Metrics of the cluster, where a page has them."""
        self.track: Sequence[Destination] = ()
        """Trackers to which the numbers of each run are added."""
        self._tracking = Tracking(())

    def _not_to_come(self, before: RunFolder | None) -> RunFolder | None:
        """Return the folder of the run before, unless the clock was set back since: it would wait for its end."""
        if before is None or before.known_until <= time.time() + _SLEW:
            return before
        _logger.warning(
            "%s: recorded until %s, which is still to come: the clock was set back; a new folder begins",
            before.path,
            moment(before.known_until),
        )
        if before.facts.ended is None:
            self._close(before, before.known_until, "its recording ends where the clock was set back")
        return None

    @property
    def known_until(self) -> float | None:
        """Unix seconds up to which the run that may be the present one is recorded; None without one."""
        return self._before.tail.end if self._before and self._before.tail else None

    def _past_before(self) -> Past | None:
        try:
            return None if self._before is None else read_past(self._before.path)
        except PastError as error:
            _logger.warning("%s", error)
            return None

    @property
    def is_done(self) -> bool:
        """True once a cluster that is gone has no run that would be recorded."""
        return self.is_gone and self._folder is None

    async def run(self, engine: Engine) -> None:
        """Record and tell until cancelled."""
        self._engine = engine
        recording = asyncio.create_task(self._tape.run())
        try:
            await engine.run(self)
        finally:
            await asyncio.to_thread(self._tracking.close)
            recording.cancel()
            await asyncio.gather(recording, return_exceptions=True)

    def record(self, event: Event) -> None:
        """Take an event as it arrives."""
        if self._folder is not None:
            self._folder.write(event)
        else:
            self._unwritten.append(event)

    def event_folded(self, event: Event) -> None:
        self._news.event_folded(event)
        if self.metrics is not None:
            self.metrics.event_folded(event)

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        self.newest = snapshot
        folder = self._folder
        if folder is None:
            self._await_run(snapshot)
        else:
            self._tracking.snapshot_taken(snapshot)
            folder.keep_up(snapshot.at, self._engine.state.known_links)
        # However short ago: what another watch has seen, it has told.
        self._news.snapshot_taken(replace(snapshot, age=math.inf) if self._is_told(snapshot) else snapshot)
        if folder is not None:
            if self._keeper is not None:
                self._keeper.note(snapshot, self._news.untold())
            self._await_end(snapshot, folder)
        if self.metrics is not None:
            self.metrics.snapshot_taken(snapshot)

    def _is_told(self, snapshot: Snapshot) -> bool:
        """Decide whether a watch before may have told what a snapshot shows."""
        if not self._is_undecided or self._before is None:
            return False
        return snapshot.at <= self._before.known_until or any(view.status is not None for view in snapshot.tasks)

    def _await_run(self, snapshot: Snapshot) -> None:
        """Begin the folder of a run that runs, or go on with the one in which it is recorded so far."""
        heard = [view for view in snapshot.tasks if view.status is not None]
        running = [view for view in heard if not view.is_over]
        before = self._before
        if not heard or (before is not None and snapshot.at <= before.known_until):
            self._forget(snapshot.at)
        elif before is None:
            self._begin(self._new_folder(), snapshot)
        elif before.is_recorded(running) if before.facts.ended else before.is_of(heard):
            _logger.info("goes on, in %s", before.path)
            self._begin(before, snapshot)
        elif not running and before.is_of(heard):
            self._forget(snapshot.at)
        elif self._is_judged(heard, snapshot):
            if before.facts.ended is None:
                self._close(before, before.known_until, f"not heard of since {moment(before.known_until)}")
            self._begin(self._new_folder(), snapshot)

    def _is_judged(self, heard: Sequence[TaskView], snapshot: Snapshot) -> bool:
        """Decide whether enough is heard to know that it is another run than the recorded one."""
        self._judged += 1
        return len(heard) == len(snapshot.tasks) or self._judged >= _JUDGED

    def _new_folder(self) -> RunFolder:
        begun = self._unwritten[0].at if self._unwritten else self._engine.source.now()
        return self._catalogue.new(self.spec, self._tape, begun)

    def _begin(self, folder: RunFolder, snapshot: Snapshot) -> None:
        self._judged, self._over_since, self._silent_since = 0, None, None
        at = self._unwritten[0].at if self._unwritten else snapshot.at
        try:
            folder.begin(at, [*self._links.values()], self._unwritten)
        except TfscaleError as error:
            self._tape.problem = str(error)
        self._news.begin(folder.path, is_new=folder is not self._before)
        past = self.past if folder is self._before else None
        self.past, self._keeper = None, PastKeeper(folder.path, folder.facts.begun, past)
        if past is not None:
            self._news.known(past.open)
        if folder is not self._before:
            _logger.info("begins, in %s", folder.path)
        self._tracking = Tracking([each.within(folder.path.name) for each in self.track])
        self._folder, self._before, self._unwritten, self._is_undecided = folder, None, [], False
        self._links.clear()

    def _forget(self, at: float) -> None:
        """Forget the events up to a moment, but for who is connected then."""
        if SecondPassed(at) not in self._unwritten:
            return
        after = 1 + self._unwritten.index(SecondPassed(at))
        self._remember(self._unwritten[:after])
        del self._unwritten[:after]

    def _remember(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, LinkChanged | AgentDescribed):
                self._links[type(event), event.task] = event

    def _await_end(self, snapshot: Snapshot, folder: RunFolder) -> None:
        """Close the folder once its run has ended."""
        at = snapshot.at
        if at <= folder.known_until:
            return
        is_heard = any(view.link.state is LinkState.UP for view in snapshot.tasks)
        self._over_since = (self._over_since or at) if _is_over(snapshot) else None
        self._silent_since = None if is_heard else self._silent_since or at
        if self._over_since and at - self._over_since >= SETTLED:
            self._end(snapshot, folder, "")
        elif self._silent_since and at - self._silent_since >= (SETTLED if self.is_gone else UNHEARD):
            self._end(snapshot, folder, f"not heard of since {moment(self._silent_since)}")

    def _end(self, snapshot: Snapshot, folder: RunFolder, asked: str) -> None:
        how, _ = manner_of_end(snapshot, asked)
        self._tracking.close(is_patient=False)
        self._folder, self._before = None, folder
        self._close(folder, snapshot.at, how or "some tasks have ended, and others are not heard")
        self._remember(self._engine.state.known_links(snapshot.at))

    def leave(self) -> None:
        """Close the folder of a run that has ended, or that nobody can hear any more."""
        if self._folder is not None and self.newest is not None and self.is_gone:
            asked = "" if _is_over(self.newest) else f"not heard of since {moment(self.newest.at)}"
            self._end(self.newest, self._folder, asked)
        self._news.finish()

    def _close(self, folder: RunFolder, at: float, how: str) -> None:
        folder.end(at, how)
        _logger.info("has ended: %s", how)
        self._report(folder.path)


def _is_over(snapshot: Snapshot) -> bool:
    """Decide whether all tasks have ended that can be heard, and none is about to be started again."""
    held = [view for view in snapshot.tasks if view.link.state is not LinkState.VACANT]
    return any(view.status for view in held) and all(_has_ended(view, snapshot.at) for view in held)


def _has_ended(view: TaskView, at: float) -> bool:
    if view.is_over:
        return view.status is None or view.status.restart_at is None
    is_lost = view.link.state in (LinkState.DOWN, LinkState.LEFT) and view.link.since is not None
    return is_lost and at - (view.link.since or at) >= UNHEARD
