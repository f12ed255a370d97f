"""Peer without which a task cannot make its first step: its host has ceased to answer.

TensorFlow waits for it as it starts, for more than four minutes and without an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tfscale.agent.cluster.failure_report import FailureReport, unstarted_report
from tfscale.agent.cluster.peers import SILENT
from tfscale.agent.telemetry.absent_probe import AbsentProbe
from tfscale.agent.telemetry.probe_reports import ProbeReports
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.restart import plan_restart
from tfscale.core.cluster.task import Task
from tfscale.core.records.probe_status import ProbeState

_BEGINS = (ProbeState.LOADED, ProbeState.WAITING, ProbeState.MEASURING)
"""States of a task that trains, or is about to; in any other one nobody knows of its steps."""


class AbsentPeer:
    """Watch over the hosts that the own agent greets; `silences` returns the seconds since each last answered."""

    def __init__(
        self,
        spec: ClusterSpec,
        task: Task,
        silences: Callable[[], Mapping[Task, float]],
        reports: ProbeReports,
        absent_probe: AbsentProbe,
    ) -> None:
        self._spec, self._task, self._silences = spec, task, silences
        self._reports, self._absent_probe = reports, absent_probe

    def report(self, generation: int, patience: float) -> FailureReport | None:
        """Return the report of a peer of whose host nothing is heard `patience` seconds after it counts as silent.

        None where the own task makes steps, or may not wait for it; `generation` is that of the own task.
        """
        if self._reports.steps or not self._begins:
            return None
        silent = {task: seconds for task, seconds in self._silences().items() if seconds >= SILENT + patience}
        hosts = {self._spec.agents[task].host: seconds for task, seconds in silent.items()}
        if not hosts:
            return None
        for task in plan_restart(self._spec, self._reports.strategy, [self._task]):
            if (seconds := hosts.get(self._spec.agents[task].host)) is not None:
                return unstarted_report(task, generation, seconds - SILENT)
        return None

    @property
    def _begins(self) -> bool:
        status = self._reports.probe or self._absent_probe.status
        return status is not None and status.state in _BEGINS
