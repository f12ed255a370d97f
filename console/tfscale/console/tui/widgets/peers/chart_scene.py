"""Scene of a task's charts: its seconds, its peers and their bands, and the moments that are marked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tfscale.console.analysis.findings import SEVERITIES
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.task_peers import Peers
from tfscale.console.history.history import Series
from tfscale.console.history.peer_bands import MIDDLE, held
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.charts.area_chart import columns
from tfscale.console.tui.widgets.peers.band_chart import Curve
from tfscale.console.tui.widgets.peers.task_measures import OF_STEPS
from tfscale.core.cluster.task import Task
from tfscale.core.records.diagnosis import Diagnosis


@dataclass(frozen=True, slots=True)
class Scene:
    """All that one drawing of a task's charts needs."""

    own: Mapping[str, Series]
    bands: Mapping[str, Series]
    at: NDArray[np.int64]
    """Unix seconds of `own` and `bands`."""
    peers: Peers
    zoom: int
    """Seconds a column."""
    finding: Diagnosis | None
    cursor: int | None
    """Column that is read, counted from the newest."""
    appearance: Appearance

    @property
    def onset(self) -> int | None:
        """Column in which the finding began, counted from the newest."""
        return (
            None
            if self.finding is None
            else max(0, int(self.at[-1]) // self.zoom - int(self.finding.begin) // self.zoom)
        )

    @property
    def onset_colour(self) -> str:
        return "" if self.finding is None else self.appearance.severity(self.finding.severity)

    def begin_of(self, back: int) -> int:
        """Return the Unix second in which a column begins, counted from the newest."""
        return (int(self.at[-1]) // self.zoom - back) * self.zoom

    def curve(self, key: str) -> Curve:
        own, band = self.own[key], self.bands.get(key)
        if key in OF_STEPS:
            own = held(own, self.own["step_time"])
            band = band if band is None else held(band, self.bands["step_time"][MIDDLE])
        return Curve(self._columns(own), None if band is None else np.stack([*map(self._columns, band)]))

    def _columns(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        return columns(values, self.at, self.zoom)


def newest_finding(snapshot: Snapshot, task: Task) -> Diagnosis | None:
    """Return the worst open finding about a task, else the newest one that has ended; one with a known begin."""
    found = [each for each in snapshot.view(task).diagnoses if not each.began_earlier]
    if found:
        return max(found, key=lambda each: SEVERITIES.index(each.severity))
    ended = (entry.diagnosis for entry in reversed(snapshot.timeline) if entry.diagnosis and entry.diagnosis.end)
    return next(
        (each for each in ended if str(task) in (each.subject, *each.together) and not each.began_earlier), None
    )
