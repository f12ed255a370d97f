"""Parts of one agent: built once, each after the parts that it needs, and never replaced."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields

from tfscale.agent import wire
from tfscale.agent.certificates.certificate_watch import CertificateWatch
from tfscale.agent.cluster.gang import Gang, GangMember
from tfscale.agent.cluster.journal import Journal
from tfscale.agent.cluster.local_task import LocalTask
from tfscale.agent.cluster.peers import Peer
from tfscale.agent.file_thread import FileThread
from tfscale.agent.kubeflow.trainer_status import TrainerStatus
from tfscale.agent.life.own_process import OwnProcess
from tfscale.agent.network.greetings import Greetings
from tfscale.agent.on_demand.stack_requests import StackDump, dump_stacks
from tfscale.agent.placement.agreement import Agreement
from tfscale.agent.placement.mover import Mover
from tfscale.agent.placement.seat import Seat
from tfscale.agent.placement.seat_peer import SeatPeer
from tfscale.agent.placement.voting import Voting
from tfscale.agent.preflight.examiner import Examiner
from tfscale.agent.process.standstill import StandstillWatch
from tfscale.agent.process.steady_clock import steady_time
from tfscale.agent.recovery.absent_peer import AbsentPeer
from tfscale.agent.recovery.task_recovery import TaskRecovery
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision.shim_process import TaskSpec
from tfscale.agent.supervision.shown_output import goes_together
from tfscale.agent.supervision.supervisor import Supervisor
from tfscale.agent.systemd.step_pace import StepPace
from tfscale.agent.telemetry.absent_probe import AbsentProbe
from tfscale.agent.telemetry.feed import Feed
from tfscale.agent.telemetry.probe_reports import ProbeReports
from tfscale.agent.telemetry.sampler import Sampler
from tfscale.core.access.kept_certificates import KeptCertificates
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.security import ChannelOpener, certificates_of
from tfscale.core.cluster.task import Task
from tfscale.core.comparison.program_files import named_code
from tfscale.core.records.task_status import TaskState, TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """Functions that parts call on an event, once the agent runs."""

    on_status: Callable[[TaskStatus], None]
    on_verdict: Callable[[], None]
    on_over: Callable[[bool], None]
    """Called when the task does not run and no start follows; the argument is true where its start has failed."""
    on_failed_command: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParts:
    """Parts of the agent of one task."""

    settings: AgentSettings
    process: OwnProcess
    seat: Seat | None
    """None where tasks stay on the hosts of the cluster file; so are `voting` and `mover`."""
    voting: Voting | None
    started: float
    """Unix time of the agent's start."""
    files: tuple[str, ...]
    """Files of code that the command names, as they were then."""
    token: str
    """Token that callers on loopback must bring; empty where everybody may give orders."""
    certificates: KeptCertificates | None
    certificate_watch: CertificateWatch
    journal: Journal
    feed: Feed
    sampler: Sampler
    reports: ProbeReports
    absent_probe: AbsentProbe
    supervisor: Supervisor
    take_stack: Callable[[], Awaitable[StackDump]]
    standstill: StandstillWatch
    pace: StepPace
    trainer_status: TrainerStatus | None
    """None outside of Kubeflow's Trainer, and where another task leads."""
    examiner: Examiner
    local: LocalTask
    peers: Mapping[Task, Peer]
    greetings: Greetings
    gang: Gang
    mover: Mover | None
    recovery: TaskRecovery


def build_parts(
    settings: AgentSettings,
    process: OwnProcess,
    seat: Seat | None,
    seats: Mapping[Address, SeatPeer],
    voting: Voting | None,
    listeners: Listeners,
) -> AgentParts:
    """Build the parts of an agent; nothing is started, and only certificates and code are read. Raises TfscaleError."""
    spec, task = settings.cluster, settings.task
    journal, reports = Journal(settings.files.journal), ProbeReports(task)
    sampler = Sampler(settings.working_folder, spec, task, process.gpus)
    supervisor = Supervisor(task_spec(settings), listeners.on_status)
    stack_files, feed = FileThread(), Feed(settings.history)

    async def take_stack() -> StackDump:
        return await dump_stacks(reports.listener, supervisor.pid, settings.files.stacks, stack_files)

    async def pause() -> str:
        newest = feed.newest()
        return "" if newest is None else wire.pause_in(wire.decode_frame(newest))

    examiner = Examiner(settings, lambda: supervisor.alive, lambda: len(sampler.gpus), lambda: reports.probe)
    local = LocalTask(settings, journal, supervisor, reports, listeners.on_over, examiner.vacate)
    if voting is None:
        opener = ChannelOpener(spec, settings.insecure, certificates_of(spec, settings.insecure, is_agent=True))
    else:
        opener = voting.opener
    counts = lambda: journal.entry.counts.sent(steady_time())  # noqa: E731
    peers = {each: Peer(spec, settings.run, each, opener, counts=counts) for each in spec.tasks if each != task}
    members: dict[Task, GangMember] = {each: local if each == task else peers[each] for each in spec.tasks}
    gang = Gang(spec, journal, members, lambda: reports.strategy, listeners.on_failed_command)
    gang.lower = [*spec.tasks][: settings.position]
    is_running = lambda: supervisor.status.state is TaskState.RUNNING  # noqa: E731
    gang.placer = mover = None
    if seat is not None and voting is not None:
        agreement = Agreement(spec, seat.address, voting.register)
        gang.placer = mover = Mover(settings, seat, seats, agreement, gang, is_running)
    greetings, absent_probe = Greetings(spec, task, peers), AbsentProbe()
    recovery = TaskRecovery(
        settings=settings,
        journal=journal,
        gang=gang,
        local=local,
        peers=peers,
        supervisor=supervisor,
        reports=reports,
        take_stack=take_stack,
        own_pause=pause,
        on_news=listeners.on_verdict,
        absent_peer=AbsentPeer(spec, task, greetings.silences, reports, absent_probe),
        mover=mover,
    )
    return AgentParts(
        settings=settings,
        process=process,
        seat=seat,
        voting=voting,
        started=time.time(),
        files=named_code(supervisor.command, settings.working_folder / (spec.program.directory or "")),
        token="" if settings.insecure_loopback else secrets.token_urlsafe(),
        certificates=opener.certificates,
        certificate_watch=CertificateWatch(opener.certificates),
        journal=journal,
        feed=feed,
        sampler=sampler,
        reports=reports,
        absent_probe=absent_probe,
        supervisor=supervisor,
        take_stack=take_stack,
        standstill=StandstillWatch(take_stack),
        pace=StepPace(),
        trainer_status=TrainerStatus.of(os.environ) if settings.leads else None,
        examiner=examiner,
        local=local,
        peers=peers,
        greetings=greetings,
        gang=gang,
        mover=mover,
        recovery=recovery,
    )


def task_spec(settings: AgentSettings) -> TaskSpec:
    """Return the shim's specification of the task; settings are passed by their names."""
    files = settings.files
    named = {each.name for each in fields(TaskSpec)} & {each.name for each in fields(settings)}
    return TaskSpec(
        directory=settings.cluster.program.directory,
        state=files.shim_state,
        lock=files.shim_lock,
        log=files.log,
        shown=files.shown if settings.show_output else None,
        shown_errors=files.shown_errors if settings.show_output and not goes_together() else None,
        address="" if settings.cluster.is_alone else str(settings.cluster.tasks[settings.task]),
        # A terminal's lines come to the group in its foreground, which the task is not; no other agent has this stdin.
        reads_stdin=settings.exit_with_task
        and (settings.cluster.is_alone or settings.ends_with_agent)
        and not os.isatty(0),
        **{name: getattr(settings, name) for name in named},
    )
