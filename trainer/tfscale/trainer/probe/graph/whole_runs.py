"""Runs of functions whose graphs take no stamps, because XLA compiles them or other processes may run them.

Such a run is measured as a whole.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from tfscale.trainer.probe.graph.traced_run import TracedRun, changes_variables


class WholeRuns:
    """Whole runs of this process, each with the observations of the time when its function was traced."""

    def __init__(self) -> None:
        self.are_seen = False
        """True once a run, or a part of one, had no stamps inside."""
        self._by_key: dict[Hashable, TracedRun] = {}

    def mark(self, run: TracedRun) -> None:
        """Mark a run as unsplit if its function updates variables; another may only compute gradients."""
        run.unsplit = changes_variables(run)
        self.are_seen |= run.unsplit

    def as_traced(self, key: Hashable, run: TracedRun) -> TracedRun:
        """Return the run as observed when its function was traced, now or earlier, with the begin of now.

        `key` identifies the function.
        """
        self.mark(run)
        traced = self._by_key.get(key)
        if traced is None or run.trains:
            self._by_key[key] = traced = replace(run, gradients={})
        return replace(traced, begun=run.begun)
