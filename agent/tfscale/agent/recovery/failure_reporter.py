"""Reports of the own task's failure to the acting lead, repeated until the task is started again or left for good."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from tfscale.agent.cluster.failure_report import FailureReport, Verdict
from tfscale.agent.cluster.gang import lowest_living
from tfscale.agent.recovery.acting_lead import ActingLead
from tfscale.agent.recovery.recovery_peer import RecoveryPeer
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Task
from tfscale.core.errors import TfscaleError

_logger = logging.getLogger(__name__)
_AGAIN = 5.0
"""Seconds between two reports of one failure whose restart is decided."""
_SOON = 1.0
"""Least seconds between two reports of an undecided failure."""
_TASKS_A_SECOND = 200
"""Tasks of a large cluster that report in one second."""
Subject = tuple[int, int, bool]
"""Failure of one attempt: its generation, its number, and whether it is a hang."""
_LEAD_PATIENCE = 5.0
"""Seconds in which the lead's agent may be started again, before another one decides in its place."""
_PATIENCE = 3.0
"""Seconds for an answer: an agent that is not the lead first asks the lower tasks' agents."""


class FailureReporter:
    """Reporter of one task. `own_report` returns the task's failure, None without one."""

    def __init__(
        self,
        spec: ClusterSpec,
        task: Task,
        peers: Mapping[Task, RecoveryPeer],
        acting: ActingLead,
        own_report: Callable[[], FailureReport | None],
        on_verdict: Callable[[FailureReport, Verdict], None],
    ) -> None:
        self._lead, self._peers, self._acting = spec.lead, peers, acting
        self._own_report, self._on_verdict = own_report, on_verdict
        tasks = list(spec.tasks)
        self._between = tasks[1 : tasks.index(task)]
        """Tasks between the lead and the own one."""
        self._leads = task == spec.lead
        self._soon = min(_AGAIN, max(_SOON, len(tasks) / _TASKS_A_SECOND))
        self._silent_since: float | None = None
        """Time on the loop's clock since which the lead's agent has not answered."""
        self._reported: Subject | None = None
        self._settled: Subject | None = None
        self._reporting: asyncio.Task[None] | None = None
        self._refusal = ""

    @property
    def is_pending(self) -> bool:
        """True while there is a failure whose verdict is not final."""
        return self._pending() is not None

    def look(self) -> None:
        """Report the task's failure if there is one; called at each change of the task, and each second."""
        if (report := self._pending()) is None or _subject(report) == self._reported:
            return
        if self._reporting is not None:
            self._reporting.cancel()
        self._reported = _subject(report)
        self._reporting = asyncio.create_task(self._report(self._reported))

    async def close(self) -> None:
        if self._reporting is not None:
            self._reporting.cancel()
            await asyncio.gather(self._reporting, return_exceptions=True)

    def _pending(self) -> FailureReport | None:
        report = self._own_report()
        return None if report is None or _subject(report) == self._settled else report

    async def _report(self, subject: Subject) -> None:
        """Report this failure until it is over, or its verdict is final."""
        try:
            while (report := self._pending()) is not None and _subject(report) == subject:
                verdict = await self._ask(report)
                if verdict is not None and (now := self._pending()) is not None and _subject(now) == subject:
                    self._settled = subject if verdict.is_final else self._settled
                    self._on_verdict(report, verdict)
                is_decided = verdict is not None and verdict.words
                await asyncio.sleep(_AGAIN if is_decided else self._soon)
        finally:
            if self._reported == subject:
                self._reported = None

    async def _ask(self, report: FailureReport) -> Verdict | None:
        """Return the verdict of the acting lead, None where nobody gives one."""
        try:
            verdict = await self._verdict(report)
        except TfscaleError as error:
            if str(error) != self._refusal:
                _logger.warning("its failure is not taken: %s", error)
            self._refusal = str(error)
            return None
        self._refusal = ""
        return verdict

    async def _verdict(self, report: FailureReport) -> Verdict | None:
        """Return the verdict of the lead's agent; without an answer, that of the lowest task's agent, else the own."""
        if self._leads:
            return await self._acting.hear(report)
        now = asyncio.get_running_loop().time()
        if (verdict := await self._peers[self._lead].report_failure(report, _PATIENCE)) is not None:
            self._silent_since = None
            return verdict
        if self._silent_since is None:
            self._silent_since = now
        if asyncio.get_running_loop().time() - self._silent_since < _LEAD_PATIENCE:
            return None
        lower = await lowest_living(self._peers, self._between)
        if lower is not None:
            return await self._peers[lower].report_failure(report, _PATIENCE)
        return await self._acting.hear(report)


def _subject(report: FailureReport) -> Subject:
    return *report.key, report.still is not None
