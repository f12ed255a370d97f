"""`tfscale-console watch`: stays, and watches all runs of some place: recordings, reports, alerts, restarts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tfscale.console.alerts.alert_setup import open_notifier, run_alerts
from tfscale.console.alerts.message import command_line
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.state_factory import resilient_states
from tfscale.console.export.headless import ended_by_signals
from tfscale.console.metrics.run_metrics import RunMetrics
from tfscale.console.metrics.run_page import served_runs
from tfscale.console.settings.config import Settings
from tfscale.console.sources.garbage import collect_seldom
from tfscale.console.sources.source_factory import ClusterConnection, connect_simulated, connect_to
from tfscale.console.tracking.tracker import check_installed
from tfscale.console.watch.cluster_watch import ClusterWatch
from tfscale.console.watch.report_queue import ReportQueue
from tfscale.console.watch.run_catalogue import RunCatalogue, runs_folder
from tfscale.console.watch.run_folder import Limits
from tfscale.console.watch.run_news import RunNews
from tfscale.console.watch.watched_places import Key, Place, WatchedPlaces
from tfscale.core.errors import TfscaleError
from tfscale.core.logs import WATCHED
from tfscale.core.settings.exit_status import ExitStatus

_logger = logging.getLogger(__name__)
_LOOK = 2.0
"""Seconds between two looks for new runs."""
_AGAIN = 30.0
"""Seconds before a cluster is watched again whose watch has failed."""
_MANY = 1000
"""Tasks of a large cluster (chosen): how many there will be is not known at the start."""
ROTATE = 1_000_000_000
"""Bytes of a recording at which the next one begins, unless the settings say otherwise."""


def run_watch(settings: Settings, origins: Mapping[str, str], environment: Mapping[str, str]) -> int:
    """Watch until a signal, and return the exit status. Raises UsageError for settings that do not hold."""
    places = WatchedPlaces(settings, origins, environment)
    limits = Limits(settings.rotate or ROTATE, settings.keep)
    # Alerts name the folder to people who stand elsewhere.
    catalogue = RunCatalogue((settings.runs or runs_folder(environment)).absolute(), limits)
    collect_seldom(_MANY)
    try:
        asyncio.run(Watch(settings, environment, places, catalogue).run())
    finally:
        catalogue.close()
    return ExitStatus.WELL


@dataclass(frozen=True, slots=True)
class _Watched:
    """One cluster that is watched, and the job that does it."""

    place: Place
    watch: ClusterWatch
    job: asyncio.Task[None]


class Watch:
    """Watch over all clusters of some places."""

    def __init__(
        self, settings: Settings, environment: Mapping[str, str], places: WatchedPlaces, catalogue: RunCatalogue
    ) -> None:
        check_installed(settings.track)
        self._settings, self._environment = settings, environment
        self._places, self._catalogue = places, catalogue
        self._notifier = open_notifier(settings)
        self._reports = ReportQueue(catalogue.unreported())
        self._watched: dict[Key, _Watched] = {}
        self._due: dict[tuple[str, str], float] = {}
        """Time from which on a cluster is watched again whose watch has failed, on the loop's clock."""
        self._is_asked_to_end = asyncio.Event()

    async def run(self) -> None:
        """Watch until a signal."""
        _logger.info("watches %s; runs are kept in %s", self._places.words, self._catalogue.root)
        notifying, reporting = asyncio.create_task(self._notifier.run()), asyncio.create_task(self._reports.run())
        own, insecure = self._places.own_spec, self._settings.insecure
        page = served_runs(self._settings.metrics, self._metrics, own, insecure=insecure)
        try:
            with page, ended_by_signals(self._is_asked_to_end.set):
                while not self._is_asked_to_end.is_set():
                    await self._look()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._is_asked_to_end.wait(), _LOOK)
        finally:
            # A second signal ends the waiting for receivers.
            await asyncio.gather(*map(self._leave, [*self._watched]))
            reporting.cancel()
            self._notifier.close()
            await asyncio.gather(notifying, reporting, return_exceptions=True)

    def _metrics(self) -> list[RunMetrics]:
        """List the metrics of all clusters, for a page in another thread."""
        return [each.watch.metrics for each in list(self._watched.values()) if each.watch.metrics is not None]

    async def _look(self) -> None:
        """Begin to watch what is new, and leave what is gone."""
        found = await self._places.find()
        for key, each in [*self._watched.items()]:
            if key in found:
                each.watch.is_gone = False
            elif (now := self._found_elsewhere(each, found)) is not None and found[now].spec == each.place.spec:
                # A file with another comment, or the next agent of a program alone at the same address.
                self._watched[now] = self._watched.pop(key)
                continue
            else:
                each.watch.is_gone = now is None
                if now is not None:
                    # An edit of a cluster file ends no run: the next watch over it goes on.
                    await self._leave(key)
                    continue
            if each.watch.is_done or each.job.done():
                await self._leave(key)
        for key, place in found.items():
            if key not in self._watched and asyncio.get_running_loop().time() >= self._due.get(place.identity, 0.0):
                self._begin(key, place)

    def _found_elsewhere(self, watched: _Watched, found: Mapping[Key, Place]) -> Key | None:
        """Return the new key of a cluster that is watched under another one; None where it is not found any more."""
        same = (key for key, place in found.items() if place.identity == watched.place.identity)
        return next((key for key in same if key not in self._watched), None)

    def _begin(self, key: Key, place: Place) -> None:
        news = RunNews(run_alerts(self._settings, self._notifier, _shown_by(key, place)))
        watch = ClusterWatch(place.spec, self._catalogue, news, self._reports.add)
        watch.metrics = None if self._settings.metrics is None else RunMetrics(place.spec)
        watch.track = self._settings.track
        self._watched[key] = _Watched(place, watch, asyncio.create_task(self._follow(place, watch)))

    async def _follow(self, place: Place, watch: ClusterWatch) -> None:
        """Watch a cluster until cancelled; a failure is told, and does not end the watch over the others."""
        WATCHED.set(place.spec.name)
        try:
            connection = self._connect(place, watch)
            spec, fail = place.spec, partial(_logger.error, "%s")
            new_state = resilient_states(spec, fail, connection.baselines, has_history=False, past=watch.past)
            policy = connection.straggler_policy(self._settings)
            engine = Engine(connection.source, new_state, watch.record, policy)
            await connection.run_within(partial(watch.run, engine))
        except TfscaleError as error:
            _logger.error("%s; tried again in %.0f s", error, _AGAIN)
        except Exception:
            _logger.exception("its watch has failed, and begins again in %.0f s; please report it", _AGAIN)
        self._due[place.identity] = asyncio.get_running_loop().time() + _AGAIN

    def _connect(self, place: Place, watch: ClusterWatch) -> ClusterConnection:
        """Return the connection to a cluster. Raises SecurityError."""
        if place.is_simulated:
            return connect_simulated(self._settings, self._settings.simulate or 0)
        known = watch.known_until
        return connect_to(place.spec, self._settings, self._environment, place.entry, known_until=known)

    async def _leave(self, key: Key) -> None:
        each = self._watched.pop(key)
        each.job.cancel()
        await asyncio.gather(each.job, return_exceptions=True)
        with _logged_as(each.place.spec.name):
            each.watch.leave()


@contextlib.contextmanager
def _logged_as(run: str) -> Iterator[None]:
    """Have the log name a run within the block."""
    token = WATCHED.set(run)
    try:
        yield
    finally:
        WATCHED.reset(token)


def _shown_by(key: Key, place: Place) -> str:
    """Return the line with the command that shows a run; empty for a simulation."""
    if place.is_simulated:
        return ""
    kind, name, *_ = key
    if kind == "file":
        return command_line("--cluster", Path(name).absolute())
    return command_line("--agent", place.entry or place.spec.agents[place.spec.lead])
