"""Recovery of the own task, and of the cluster while this agent is the acting lead; the daemon's way to both."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from tfscale.agent.cluster.failure_report import FailureReport, Verdict, shortened, unstarted_report
from tfscale.agent.cluster.gang import Gang, GangMember
from tfscale.agent.cluster.journal import Journal
from tfscale.agent.cluster.local_task import LocalTask
from tfscale.agent.cluster.restart_budget import Progress
from tfscale.agent.on_demand.stack_requests import StackDump
from tfscale.agent.placement.mover import Mover
from tfscale.agent.recovery.absent_peer import AbsentPeer
from tfscale.agent.recovery.acting_lead import ActingLead
from tfscale.agent.recovery.failure_reporter import FailureReporter
from tfscale.agent.recovery.hang_pauses import HangPauses
from tfscale.agent.recovery.hang_stacks import HangStacks, OwnStacks
from tfscale.agent.recovery.recovery_peer import RecoveryPeer
from tfscale.agent.recovery.straggler_restarts import StragglerRestarts
from tfscale.agent.recovery.watchdog import Watchdog
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision.supervisor import Supervisor
from tfscale.agent.telemetry.probe_reports import ProbeReports
from tfscale.core.cluster.recovery_policy import RecoveryPolicy, RestartPolicy
from tfscale.core.cluster.task import Task
from tfscale.core.records.probe_status import ProbeState
from tfscale.core.records.task_status import TaskState, TaskStatus

GAVE_UP = 93
"""Exit status of an agent that ends with its task without a further restart: NVIDIA's `do not requeue`."""

_MOST_WORDS = 400
"""Characters of a verdict that are shown."""


class TaskRecovery:
    """Reports of the own task's failures with their verdicts, and the own decisions about other tasks' failures."""

    def __init__(
        self,
        *,
        settings: AgentSettings,
        journal: Journal,
        gang: Gang,
        local: LocalTask,
        peers: Mapping[Task, RecoveryPeer],
        supervisor: Supervisor,
        reports: ProbeReports,
        take_stack: Callable[[], Awaitable[StackDump]],
        own_pause: Callable[[], Awaitable[str]],
        on_news: Callable[[], None],
        absent_peer: AbsentPeer,
        mover: Mover | None = None,
    ) -> None:
        spec, task = settings.cluster, settings.task
        self._task, self._policy, self._journal = task, spec.recovery or RecoveryPolicy({}), journal
        self._supervisor, self._reports, self._on_news = supervisor, reports, on_news
        self._local = local
        self._absent_peer = None if mover is None else absent_peer
        """None where tasks stay where the cluster file has them: a restart would wait for the same peer."""
        self._is_on = spec.recovery is not None
        members: dict[Task, GangMember] = {each: local if each == task else peers[each] for each in spec.tasks}
        stacked = {each: OwnStacks(take_stack) if each == task else peers[each] for each in spec.tasks}
        stacks = HangStacks(settings.files.folder, stacked)
        strategy = lambda: reports.strategy  # noqa: E731
        self._acting = ActingLead(
            spec=spec,
            policy=self._policy,
            task=task,
            members=members,
            gang=gang,
            journal=journal,
            strategy=strategy,
            reached=self._reached,
            stacks=stacks,
            pauses=HangPauses({each: own_pause if each == task else peers[each].pause for each in spec.tasks}),
            mover=mover,
        )
        self._stragglers = StragglerRestarts(
            spec=spec,
            policy=self._policy,
            gang=gang,
            acting=self._acting,
            strategy=strategy,
            mover=mover,
        )
        self._reporter = FailureReporter(spec, task, peers, self._acting, self._own_report, self._on_verdict)
        self._watchdog = Watchdog()
        self._still: float | None = None
        """Seconds without a step, where they are more than any normal pause."""
        self.gave_up = False
        """True where the newest end of the task is left because no other restart may follow."""

    @property
    def acting(self) -> ActingLead | None:
        """Receiver of other agents' reports; None where the cluster file says nothing of recovery."""
        return self._acting if self._is_on else None

    @property
    def stragglers(self) -> StragglerRestarts | None:
        """Receiver of consoles' requests by the policy `on_straggler`; None without `[recovery]`."""
        return self._stragglers if self._is_on else None

    @property
    def is_pending(self) -> bool:
        """True while the task has failed without a final verdict, or awaits the start that a command has announced."""
        return self._reporter.is_pending or 0.0 <= self._unstarted() < self._policy.replace_after

    def look(self) -> None:
        """Take in the task's state; called at each change of it, and each second."""
        self.gave_up = self.gave_up and not self._supervisor.alive
        status, reports = self._supervisor.status, self._reports
        is_running = status.state is TaskState.RUNNING
        attempt = (status.generation, status.attempt)
        still = self._watchdog.look(attempt, reports.steps, reports.lasting, time.monotonic())
        is_lost = reports.probe is not None and reports.probe.state is ProbeState.DISABLED
        self._still = still if is_running and not is_lost else None  # without a probe nobody knows of steps
        self._reporter.look()

    async def close(self) -> None:
        self._is_on = False
        await self._reporter.close()
        await self._acting.close()

    def _reached(self) -> Progress:
        probe, training = self._reports.probe, self._reports.training
        return Progress(probe.checkpoint if probe else None, training.global_step if training else None)

    @property
    def _may_restart(self) -> bool:
        """True where some end of some task is followed by a restart."""
        return self._is_on and bool(set(self._policy.by_role.values()) - {RestartPolicy.NEVER})

    def _unstarted(self) -> float:
        """Return the seconds for which a start is awaited that a command has announced; negative where none is."""
        waited = self._local.unstarted() if self._may_restart else None
        return -1.0 if waited is None else waited

    def _own_report(self) -> FailureReport | None:
        """Return the failure or the hang of the task, or that of another one which was not started; None without one.

        Where a command has followed it, that is its affair, and a failure only where it did not start the task again.
        """
        status, commanded = self._supervisor.status, self._journal.entry.commanded
        if not self._is_on:
            return None
        if commanded > status.generation:
            waited = self._unstarted()
            return unstarted_report(self._task, commanded, waited) if waited >= self._policy.replace_after else None
        reached = self._reached()
        report = FailureReport(str(self._task), shortened(status), reached.checkpoint, reached.step)
        if status.state is TaskState.RUNNING and self._still is not None:
            return replace(report, still=self._still, is_inside=self._reports.is_waiting)
        if self._has_failed(status):
            return report
        return self._unstarted_other(status) if self._may_restart else None

    def _unstarted_other(self, status: TaskStatus) -> FailureReport | None:
        """Return the report of another task that was not started: on a silent host, or by the own command."""
        absent = None
        if status.state is TaskState.RUNNING and self._absent_peer is not None:
            absent = self._absent_peer.report(status.generation, self._policy.replace_after)
        return absent or self._acting.overdue_start()

    def _has_failed(self, status: TaskStatus) -> bool:
        """Decide whether the end of the task is a failure that its policy, or the first failed task's, may restart."""
        end = status.exit
        if not self._may_restart:
            return False
        if status.state is TaskState.LOST:
            return not self._supervisor.is_end_unknown
        if status.state is not TaskState.EXITED or end is None or end.requested:
            return False
        if self._supervisor.answered is not None:
            return False
        return end.code != 0 or self._policy.of(self._task.role) is RestartPolicy.ALWAYS

    def _on_verdict(self, report: FailureReport, verdict: Verdict) -> None:
        if report.still is not None or report.task != str(self._task):
            return
        self.gave_up = verdict.gave_up
        at = None if verdict.seconds is None else time.time() + verdict.seconds
        announced = self._supervisor.status.restart_at
        is_news = self._supervisor.explain(verdict.words[:_MOST_WORDS], announced if self._is_announced(at) else at)
        if is_news or verdict.is_final:
            self._on_news()

    def _is_announced(self, at: float | None) -> bool:
        """Decide whether this time of the restart is announced already, to 1 s: the answers' way shifts it."""
        announced = self._supervisor.status.restart_at
        return at is not None and announced is not None and abs(at - announced) < 1.0
