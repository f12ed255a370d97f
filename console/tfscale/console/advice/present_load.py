"""Load of a cluster at the moment of a snapshot."""

from __future__ import annotations

from tfscale.console.analysis.run.load import Load, load_of
from tfscale.console.engine.model import Snapshot
from tfscale.core.cluster.task import Role


def load_of_snapshot(snapshot: Snapshot) -> Load | None:
    """Return the present load from the workers in contact that train; None if unmeasured."""
    roles = (Role.CHIEF, Role.WORKER)
    views = [view for view in snapshot.tasks if view.is_up and view.task.role in roles]
    probe = next((probe for view in views if view.frame and (probe := view.frame.probe) and probe.ranks), None)
    return load_of(snapshot.findings, [view.summary for view in views if view.summary], probe)
