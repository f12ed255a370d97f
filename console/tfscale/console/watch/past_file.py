"""File in which a watch keeps the past of a run, for consoles that come late."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.timeline.past import Past, PastError, parse_past, past_json
from tfscale.console.history.cluster_series import ClusterSeries
from tfscale.console.settings.config import Settings
from tfscale.console.watch.run_catalogue import newest_run, runs_folder
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.errors import UsageError
from tfscale.core.files.whole_file import write_whole
from tfscale.core.records.diagnosis import Diagnosis

_logger = logging.getLogger(__name__)
PAST = "past.json"
_MOST_BYTES = 1 << 24
"""Bytes of the file (chosen): a thousand events with their evidence take one or two million."""


_SOON, _LATER = 10.0, 30.0
"""Seconds between two writes where events have changed, and otherwise: a late console asks agents for 60 at least."""


class PastKeeper:
    """Writer of the past of one run, which goes on with what a watch before has kept."""

    def __init__(self, folder: Path, begun: float, before: Past | None) -> None:
        self._path, self._begun = folder / PAST, begun
        self._figures = ClusterSeries()
        for second, figures in before.figures if before else ():
            self._figures.recall(second, figures)
        self._written: tuple[float, object, object] = (-math.inf, None, None)
        """Time, events and told diagnoses of the last write."""
        self._has_failed = False

    def note(self, snapshot: Snapshot, untold: Sequence[tuple[Diagnosis, bool]]) -> None:
        """Take in a snapshot, and write the file where it is time.

        `untold` are findings whose alert waits, with whether it is about their end: a watch that goes on tells it.
        """
        findings = snapshot.findings
        self._figures.add(snapshot.at, findings.steps_per_second, findings.efficiency, snapshot.loss)
        begun = {(each.kind, each.subject) for each, is_end in untold if not is_end}
        ended = {(each.kind, each.subject) for each, is_end in untold if is_end}
        known = {(each.kind, each.subject) for each in findings.diagnoses if each.end is None}
        present = frozenset(known - begun | ended)
        at, entries, before = self._written
        due = _SOON if snapshot.timeline != entries else _LATER
        if snapshot.is_outdated or (present == before and snapshot.at - at < due):
            return
        self._written = snapshot.at, snapshot.timeline, present
        kept = tuple(entry for entry in snapshot.timeline if entry.at >= self._begun)
        described = [(str(view.task), view.description) for view in snapshot.tasks]
        agents = {task: (agent.pid, agent.started) for task, agent in described if agent}
        self._write(Past(agents, kept, self._figures.kept(), present))

    def _write(self, past: Past) -> None:
        try:
            write_whole(self._path, past_json(past))
            self._has_failed = False
        except OSError as error:
            if not self._has_failed:
                _logger.error("%s: %s: consoles that come late do not have the past", self._path, error.strerror)
            self._has_failed = True


def read_past(folder: Path) -> Past | None:
    """Return the past in the folder of a run, None without any. Raises PastError."""
    path = folder / PAST
    try:
        with path.open(encoding="utf-8") as file:
            return parse_past(file.read(_MOST_BYTES), str(path))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise PastError(f"{path}: cannot be read: {error}") from None


def past_of(spec: ClusterSpec, settings: Settings, environment: Mapping[str, str]) -> Past | None:
    """Return the past of the cluster's run: from the named folder, else from this user's watch, if there is one.

    Raises UsageError for a named folder that holds none.
    """
    if (named := settings.history) is not None:
        if (past := read_past(named)) is None:
            raise UsageError(f"--history {named}: no folder of a watched run: {PAST} is not there")
        return past
    folder = newest_run(runs_folder(environment), spec)
    try:
        return None if folder is None else read_past(folder)
    except PastError as error:
        _logger.warning("%s", error)
        return None
