"""Factories of empty states: an engine needs a new one at its beginning and at each jump of a replay."""

from __future__ import annotations

from collections.abc import Callable

from tfscale.console.engine.resilient_analysis import ResilientAnalysis
from tfscale.console.engine.state import ClusterState
from tfscale.core.analysis.diagnostician import Diagnostician
from tfscale.core.cluster.cluster_spec import ClusterSpec


def states(spec: ClusterSpec) -> Callable[[], ClusterState]:
    """Return a factory of states whose analysis raises its errors."""
    return lambda: ClusterState(spec, Diagnostician(spec))


def resilient_states(spec: ClusterSpec, report: Callable[[str], None]) -> Callable[[], ClusterState]:
    """Return a factory of states that pass each failure of the analysis to `report`, and go on."""
    return lambda: ClusterState(spec, ResilientAnalysis(Diagnostician(spec), report))
