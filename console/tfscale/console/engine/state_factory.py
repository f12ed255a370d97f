"""Factories of empty states: an engine needs a new state at its beginning and at each jump of a replay."""

from __future__ import annotations

from collections.abc import Callable

from tfscale.console.analysis.baselines.baseline import BaselineStore
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.engine.resilient_analysis import ResilientAnalysis
from tfscale.console.engine.state import ClusterState
from tfscale.console.engine.timeline.past import Past
from tfscale.core.cluster.cluster_spec import ClusterSpec


def states(spec: ClusterSpec, baselines: BaselineStore | None = None) -> Callable[[], ClusterState]:
    """Return a factory of states in which a rule's error ends the console. `baselines` are those of earlier runs."""
    return lambda: ClusterState(spec, Diagnostician(spec, baselines=baselines))


def resilient_states(
    spec: ClusterSpec,
    report: Callable[[str], None],
    baselines: BaselineStore | None = None,
    *,
    has_history: bool = True,
    past: Past | None = None,
) -> Callable[[], ClusterState]:
    """Return a factory of states that pass each failure of the analysis to `report`, and go on.

    Without a history they are for listeners that draw no charts; `past` is what another console has kept of the run.
    """

    def new_state() -> ClusterState:
        analysis = ResilientAnalysis(Diagnostician(spec, baselines=baselines), report)
        return ClusterState(spec, analysis, has_history=has_history, past=past)

    return new_state
