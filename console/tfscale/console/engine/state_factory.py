"""Factories of empty states: an engine needs a new state at its beginning and at each jump of a replay."""

from __future__ import annotations

from collections.abc import Callable

from tfscale.console.analysis.baselines.baseline import BaselineStore
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.engine.resilient_analysis import ResilientAnalysis
from tfscale.console.engine.state import ClusterState
from tfscale.core.cluster.cluster_spec import ClusterSpec


def states(spec: ClusterSpec, baselines: BaselineStore | None = None) -> Callable[[], ClusterState]:
    """Return a factory of states in which a rule's error ends the console. `baselines` are those of earlier runs."""
    return lambda: ClusterState(spec, Diagnostician(spec, baselines=baselines))


def resilient_states(
    spec: ClusterSpec, report: Callable[[str], None], baselines: BaselineStore | None = None
) -> Callable[[], ClusterState]:
    """Return a factory of states that pass each failure of the analysis to `report`, and go on."""
    return lambda: ClusterState(spec, ResilientAnalysis(Diagnostician(spec, baselines=baselines), report))
