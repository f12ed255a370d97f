"""Life of an agent: startup, serve, shutdown."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path

from tfscale.agent import wire
from tfscale.agent.cluster.gang import Gang, GangMember, Verb
from tfscale.agent.cluster.journal import Journal
from tfscale.agent.cluster.local_task import LocalTask
from tfscale.agent.cluster.peers import Peer
from tfscale.agent.file_thread import FileThread
from tfscale.agent.life.own_process import OwnProcess
from tfscale.agent.network.greetings import Greetings
from tfscale.agent.on_demand import stack_requests
from tfscale.agent.placement.mover import Mover
from tfscale.agent.placement.seat import Seat
from tfscale.agent.placement.seat_peer import SeatPeer
from tfscale.agent.preflight.examiner import Examiner
from tfscale.agent.process.standstill import StandstillWatch
from tfscale.agent.recovery.task_recovery import GAVE_UP, TaskRecovery
from tfscale.agent.serving.agent_server import AgentServer
from tfscale.agent.serving.certificate_watch import CertificateWatch
from tfscale.agent.serving.report_server import ReportServer
from tfscale.agent.serving.service import AgentService
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision.shim_process import TaskSpec, shown_command
from tfscale.agent.supervision.supervisor import Supervisor
from tfscale.agent.supervision.task_environment import probe_site, report_socket
from tfscale.agent.supervision.transitions import has_finished, how_it_ended
from tfscale.agent.telemetry.absent_probe import AbsentProbe
from tfscale.agent.telemetry.feed import Feed
from tfscale.agent.telemetry.probe_reports import ProbeReports
from tfscale.agent.telemetry.sampler import Sampler
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.local.local_agents import Announcement, LocalAgent, announced
from tfscale.core.cluster.placement.place_rule import MOVABLE
from tfscale.core.cluster.security import ChannelOpener, certificates_of
from tfscale.core.cluster.task import Task
from tfscale.core.errors import TfscaleError
from tfscale.core.records.frame import Description, Farewell, Frame
from tfscale.core.records.probe_status import ProbeStatus
from tfscale.core.records.task_status import TaskState, TaskStatus
from tfscale.core.report_schedule import until_next
from tfscale.core.version import installed_version

_logger = logging.getLogger(__name__)
_LEAD_PATIENCE = 20.0
"""Seconds for which a task waits for the lead's agent to name the generation, before it starts in its own."""
_UNWATCHED = 10.0
"""Seconds without a console after which an agent that is to end unwatched ends: consoles connect again."""


class Daemon:
    """Agent of one task. `run` is its whole life: startup, serve, shutdown.

    `seat` and the others' `seats` are None where tasks stay where the cluster file has them; `process` is None where
    no other agent is in the process.
    """

    def __init__(
        self,
        settings: AgentSettings,
        process: OwnProcess | None = None,
        seat: Seat | None = None,
        seats: Mapping[Address, SeatPeer] | None = None,
    ) -> None:
        files = settings.files
        self._process = process or OwnProcess(ends_with_terminal=settings.exit_with_task)
        self._settings = settings
        self._seat = seat
        self._started = time.time()
        self._journal = Journal(files.journal)
        self._feed = Feed()
        self._sampler = Sampler(Path.cwd(), settings.cluster, settings.task, self._process.gpus)
        self._reports = ProbeReports(settings.task)
        self._absent = AbsentProbe()
        self._standstill = StandstillWatch(self._take_stack)
        self._stack_files = FileThread()
        self._supervisor = Supervisor(task_spec(settings), self._on_change)
        self._examiner = Examiner(
            settings, lambda: self._supervisor.alive, lambda: len(self._sampler.gpus), lambda: self._reports.probe
        )
        self._local = LocalTask(
            settings, self._journal, self._supervisor, self._reports, self._on_over, self._examiner.vacate
        )
        self._token = "" if settings.insecure_loopback else secrets.token_urlsafe()
        self._certificates = certificates_of(settings.cluster, settings.insecure, is_agent=True)
        self._certificate_watch = CertificateWatch(self._certificates)
        opener = ChannelOpener(settings.cluster, settings.insecure, self._certificates)
        self._peers = {
            task: Peer(settings.cluster, settings.run, task, opener)
            for task in settings.cluster.tasks
            if task != settings.task
        }
        self._greetings = Greetings(settings.cluster, settings.task, self._peers)
        self._gang = self._own_gang()
        self._mover = None if seat is None else Mover(settings, seat, seats or {}, self._gang, self._is_running)
        self._gang.placer = self._mover
        if seat is not None:
            seat.leave = self._leave_for_placement
        self._recovery = TaskRecovery(
            settings,
            self._journal,
            self._gang,
            self._local,
            self._peers,
            self._supervisor,
            self._reports,
            self._take_stack,
            self._on_verdict,
            self._mover,
        )
        self._server: AgentServer | None = None
        self._report_server: ReportServer | None = None
        self._sequence = 0
        self._watched = time.monotonic()
        """When a console last watched, or the task was last alive."""
        self._leave = asyncio.Event()
        self._is_handing_over = False
        """True once the agent goes without its task."""
        self.moves = False
        """True where it ends because tasks were placed anew: another daemon follows."""
        self._jobs: set[asyncio.Task[None]] = set()
        self._has_not_started = False
        """True once a start of the task has failed without a word of its own."""
        self._logged_failures: set[tuple[str, type]] = set()
        """(operation, exception type) pairs that are in the log already."""

    async def run(self) -> int:
        """Serve until asked to end, and return the exit status.

        Raises TfscaleError if the agent cannot start, NotBegun where another one of the process cannot.
        """
        with self._process.living(self):
            return await self._run()

    async def _run(self) -> int:
        # The port first: an agent that cannot have it is announced to nobody.
        self._server = AgentServer(
            self._settings, self._service(), self._certificates, self._token, self._settings.files.audit
        )
        with announced(_local_agent(self._settings, self._started, self._token), os.environ) as announcement:
            try:
                await self._startup()
            except BaseException:
                await self._stop_servers()
                raise
            ticks = asyncio.create_task(self._tick(announcement))
            await self._leave.wait()
            await self._drain()
            ticks.cancel()
            # Peers may ask until the server stops, and need the token that the announcement has.
            await self._shutdown()
        status = self._exit_status() if self._settings.exit_with_task else 0
        end = self._supervisor.status.exit
        self._process.ended(status, time.time() if end is None else end.at)
        return status

    async def _startup(self) -> None:
        await self._take_place()
        status = await self._local.adopt()
        self._report_server = ReportServer(Path(self._local.socket), self._reports, self._report_socket)
        await self._report_server.start()
        self._local.socket = str(self._report_server.path)
        await self._process.ready()
        self._sampler.start()
        self._greetings.start()
        self._call_safely("sample", self._sample)
        await self._begin(status)
        self._publish()
        assert self._server is not None
        await self._server.start()
        settings = self._settings
        _logger.info("serving %s; run %s, its log is %s", settings.listen, settings.run, settings.files.log)
        if settings.cluster_file is not None:
            _logger.info("the cluster is that of %s", settings.cluster_file.absolute())
        if self._mover is not None and settings.leads:
            self._job(self._mover.keep())

    async def _take_place(self) -> None:
        """Write down that the own task is in the placement of now, and that its command has been carried out."""
        entry, placed_in = self._journal.entry, self._settings.cluster.placed_in
        is_old = entry.intent is not None and entry.intent.placement and entry.intent.generation <= placed_in
        await self._journal.update(generation=placed_in, intent=None if is_old else entry.intent)

    async def _tick(self, announcement: Announcement) -> None:
        while True:
            await asyncio.sleep(until_next(time.time(), self._settings.position))
            await self._keep_socket()
            self._call_safely("announcement", announcement.keep)
            self._call_safely("certificate", self._certificate_watch.look)
            self._call_safely("shim", self._supervisor.look)
            self._call_safely("sample", self._sample)
            self._call_safely("frame", self._publish)
            self._call_safely("recovery", self._recovery.look)
            if self._settings.exit_unwatched and self._is_forgotten():
                _logger.info("the task has ended, and no console watches")
                self._leave.set()

    def _report_socket(self) -> str:
        return report_socket(self._settings)

    async def _keep_socket(self) -> None:
        """Have the next start of the task report where it can, also when the runtime folder was removed."""
        assert self._report_server is not None
        try:
            await self._report_server.keep()
        except TfscaleError as error:
            self._log_once("socket", error)
        self._local.socket = str(self._report_server.path)

    def _is_forgotten(self) -> bool:
        """Return whether the task has ended, and no console has watched for a while."""
        now = time.monotonic()
        is_over = self._supervisor.status.state in (TaskState.EXITED, TaskState.LOST) and not self._recovery.is_pending
        if self._feed.is_watched or not is_over:
            self._watched = now
        return now - self._watched > _UNWATCHED

    def _call_safely(self, operation: str, function: Callable[[], None]) -> None:
        """Call a function that is called each second; log an exception of a new type and go on.

        A host that is out of files or memory may have them again in a second: the stream must not end.
        """
        try:
            function()
        except Exception as error:
            self._log_once(operation, error)

    def _log_once(self, operation: str, error: Exception) -> None:
        if (kind := (operation, type(error))) not in self._logged_failures:
            self._logged_failures.add(kind)
            _logger.error("%s failed, trying again in a second: %r", operation, error)

    def _sample(self) -> None:
        pid = self._supervisor.status.pid if self._supervisor.alive else None
        self._standstill.look(self._reports.collective)
        self._sampler.sample(pid, self._greetings.heard, self._standstill.place)
        self._absent.look(pid if self._reports.probe is None else None)

    async def _drain(self) -> None:
        for job in self._jobs:
            job.cancel()
        await self._recovery.close()
        await self._gang.close()
        if self._is_handing_over or self._stays():
            self._local.hand_over()
        elif self.moves:
            await self._local.drain("its tasks are placed anew")
        else:
            await self._local.drain()

    async def _shutdown(self) -> None:
        self._publish()
        self._feed.close(Farewell(self._is_handing_over and self._supervisor.alive, self.moves))
        self._sampler.stop()
        self._greetings.stop()
        self._certificate_watch.stop()
        await asyncio.gather(*(peer.close() for peer in self._peers.values()))
        await self._stop_servers()
        _logger.info("goes on where tasks are placed now" if self.moves else "ended")

    async def _stop_servers(self) -> None:
        await asyncio.gather(*(server.stop() for server in (self._server, self._report_server) if server is not None))

    def _service(self) -> AgentService:
        return AgentService(
            self._settings,
            self._describe,
            self._feed,
            self._local,
            self._gang if self._settings.leads else None,
            self._recovery.acting,
            self._recovery.stragglers if self._settings.leads else None,
            self._take_stack,
            lambda seconds: self._reports.profiler.profile(seconds, self._settings.files.profiles),
            self._examiner,
            self._seat,
            self._mover if self._settings.leads else None,
        )

    def _is_running(self) -> bool:
        return self._supervisor.status.state is TaskState.RUNNING

    def _stays(self) -> bool:
        """Return whether the own task goes on where it is while others are placed anew."""
        is_same = self._seat is not None and self._seat.task == self._settings.task
        return self.moves and is_same and self._settings.task.role not in MOVABLE

    def _leave_for_placement(self) -> None:
        """End, so that the daemon of the task that this seat holds now can begin."""
        is_followed = self._seat is None or self._seat.placement.seats == self._settings.cluster.agents
        if not is_followed and not self._leave.is_set():
            self.moves = True
            self._leave.set()

    async def _take_stack(self) -> stack_requests.StackDump:
        pid = self._supervisor.status.pid if self._supervisor.alive else None
        return await stack_requests.dump_stacks(
            self._reports.listener, pid, self._settings.files.stacks, self._stack_files
        )

    def _own_gang(self) -> Gang:
        members: dict[Task, GangMember] = {self._settings.task: self._local, **self._peers}
        members = {task: members[task] for task in self._settings.cluster.tasks}
        return Gang(
            self._settings.cluster, self._journal, members, lambda: self._reports.strategy, self._on_failed_command
        )

    def _on_verdict(self) -> None:
        """Tell consoles what becomes of the failed task; leave with it where it is left."""
        self._publish()
        self._leave_with_task(self._supervisor.status)

    async def _begin(self, status: TaskStatus) -> None:
        """Start the task, unless it is alive, or has ended while no agent was there."""
        begins = self._settings.restart or self._is_placed_anew
        cold = status.state is TaskState.PENDING or (begins and not self._supervisor.alive)
        self._tell_of_earlier_start(status, cold)
        if cold and probe_site() is None:
            _logger.warning("the trainer part of tfscale is not installed beside the agent: no step will be measured")
        if cold and self._is_placed_anew:
            await self._start_in(self._settings.cluster.placed_in, self._settings.start_reason or "placed anew")
            return
        if cold and not self._was_starting(status):
            if self._settings.leads:
                await self._gang.begin()
            else:
                self._job(self._join())
            return
        self._gang.resume()
        if self._settings.leads and has_finished(status):
            self._job(self._finish())
        self._recovery.look()
        if not cold and not self._supervisor.alive and self._journal.entry.ended_by is not None:
            self._on_over(has_failed=False)

    @property
    def _is_placed_anew(self) -> bool:
        """True where the start of the own task is the second phase of a restart that has moved tasks.

        Each agent carries it out by itself, in the generation of the placement: all older tasks were stopped before.
        """
        is_older = self._journal.entry.task_generation < self._settings.cluster.placed_in
        return is_older and self._settings.task.role in MOVABLE

    def _tell_of_earlier_start(self, status: TaskStatus, cold: bool) -> None:
        """Say that a task of an earlier agent runs, or ended meanwhile, where its output is missed."""
        log = self._settings.files.log
        if self._supervisor.alive and self._settings.show_output:
            _logger.warning("joined the task, which an earlier agent had started; its earlier output is in %s", log)
        elif not cold and not self._supervisor.alive:
            how = f"ended ({status.reason})" if status.exit is None else how_it_ended(status.exit)
            then = "it is reported" if self._recovery.is_pending else "give --restart to run it again"
            _logger.warning("the task %s while no agent was there; %s; its log is %s", how, then, log)

    def _was_starting(self, status: TaskStatus) -> bool:
        """Return whether the last agent was killed during a command, just before it started its own task."""
        entry = self._journal.entry
        started = entry.intent is not None and entry.intent.starting
        return started and status.state is TaskState.PENDING and not entry.drained

    async def _join(self) -> None:
        """Start the task in the generation of the lead's agent, or in its own if that agent does not answer."""
        spec = self._settings.cluster
        generation = await self._peers[spec.lead].generation(_LEAD_PATIENCE, wait=True)
        if generation is None:
            generation = max(1, self._journal.entry.generation)
            where = f"the agent of {spec.lead} at {spec.agents[spec.lead]}"
            why = "refuses" if self._peers[spec.lead].refusal else "does not answer"
            _logger.warning("%s %s: the task starts in its own generation %d", where, why, generation)
        await self._start_in(max(1, generation), "started with its agent")

    async def _start_in(self, generation: int, reason: str) -> None:
        try:
            await self._local.join(generation, reason)
        except TfscaleError as error:
            _logger.error("%s", error)

    def _job(self, coroutine: Coroutine[None, None, None]) -> None:
        job = asyncio.create_task(coroutine)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)

    def hand_over(self) -> None:
        """Go, and leave the task to the next agent."""
        if self._leave.is_set():
            _logger.warning("not handed over: the agent is ending already")
        elif why := self._why_not_handed_over():
            _logger.warning("not handed over: %s", why)
        else:
            self._is_handing_over = True
            _logger.info(
                "leaves, as asked%s",
                ", and its task goes on: the next agent that is started with the same command in this folder adopts it"
                if self._supervisor.alive
                else "; there is no task that runs",
            )
            self._leave.set()

    def _why_not_handed_over(self) -> str | None:
        if self._settings.ends_container:
            return "its container would end with it, and the task too; give the container another process 1"
        if self._settings.exit_with_task:
            return "with --exit-with-task its end stands for the task's; start agents that are to leave without it"
        return None

    def leave(self) -> None:
        """End the task and the agent; the second call kills the task."""
        self.moves = False
        if self._is_handing_over:
            _logger.info("asked to end, and is leaving already: its task goes on")
        elif self._leave.is_set():
            _logger.warning("asked to end again: the task is killed")
            self._supervisor.kill()
        else:
            _logger.info("asked to end")
        self._leave.set()

    def _on_change(self, status: TaskStatus) -> None:
        self._publish()
        self._call_safely("recovery", self._recovery.look)
        if self._settings.leads and has_finished(status) and not self._recovery.is_pending:
            self._job(self._finish())
        else:
            self._leave_with_task(status)

    def _leave_with_task(self, status: TaskStatus) -> None:
        unasked = status.exit is None or not status.exit.requested
        has_ended = status.state in (TaskState.EXITED, TaskState.LOST)
        if self._settings.exit_with_task and has_ended and unasked and not self._recovery.is_pending:
            self._leave.set()

    async def _finish(self) -> None:
        """Stop the tasks that only served the own task, which has ended well."""
        try:
            if (operation := await self._gang.finish()) is not None:
                async for _ in operation.progress():
                    pass
        except TfscaleError as error:
            _logger.error("%s", error)
        if self._settings.exit_with_task:
            self._leave.set()

    def _on_failed_command(self) -> None:
        if not self._supervisor.alive:
            self._on_over(has_failed=True)

    def _on_over(self, has_failed: bool) -> None:
        """End with the task, which does not run and which no start follows, once the caller has been told."""
        if self._settings.exit_with_task:
            self._job(self._leave_after_command(has_failed))

    async def _leave_after_command(self, has_failed: bool) -> None:
        await self._gang.settle()
        if self._supervisor.alive or self._recovery.is_pending:  # a start may have come meanwhile, or follow
            return
        self._has_not_started = has_failed
        self._leave.set()

    def _exit_status(self) -> int:
        """Return the task's exit status as a shell does.

        It is 93 where the task was given up, 1 where its end is not known or it could not be started, and 0 where it
        only served the lead's task.
        """
        if self._recovery.gave_up:
            return GAVE_UP
        end = self._supervisor.status.exit
        if end is None or (end.requested and self._has_not_started):
            return 1
        if self._journal.entry.ended_by == Verb.FINISH:
            return 0
        return 128 + end.signal if end.signal is not None else 1 if end.code is None else end.code

    def _publish(self) -> None:
        self._reports.hear()
        frame = Frame(
            sequence=self._sequence,
            at=time.time(),
            status=self._supervisor.status,
            probe=self._with_troubles(self._reports.probe or self._absent.status),
            collective=self._reports.collective,
            host=self._sampler.host,
            gpus=self._sampler.gpus,
            training=self._reports.training,
            activities=self._reports.take_activities(),
            coordinator=self._reports.coordinator,
        )
        self._sequence += 1
        self._feed.publish(wire.encode_frame(frame, self._reports.take_steps()))

    def _with_troubles(self, probe: ProbeStatus | None) -> ProbeStatus | None:
        """Return the status of the probe, by which a console also learns what is wrong beside it."""
        if probe is None:
            return None
        troubles = (*self._supervisor.troubles, *self._certificate_watch.troubles)
        return replace(probe, warnings=(*troubles, *probe.warnings))

    def _describe(self) -> Description:
        settings = self._settings
        return Description(
            version=installed_version() or "",
            run=settings.run,
            task=str(settings.task),
            lead=str(settings.cluster.lead),
            host=socket.gethostname(),
            cluster=settings.cluster.to_json(),
            command=self._supervisor.command,
            log_path=str(settings.files.log),
            generation=self._journal.entry.generation,
            started=self._started,
            pid=os.getpid(),
            directory=str(Path(settings.cluster.program.directory or "").absolute()),
            fingerprint=settings.identity.fingerprint,
            placement="" if self._seat is None else self._seat.placement.to_json(),
            on_straggler="" if (recovery := settings.cluster.recovery) is None else recovery.on_straggler,
        )


def _local_agent(settings: AgentSettings, started: float, token: str) -> LocalAgent:
    file = settings.cluster_file
    return LocalAgent(
        run=settings.run,
        task=str(settings.task),
        address=str(settings.listen),
        pid=os.getpid(),
        started=started,
        directory=str(Path.cwd()),
        command=tuple(shown_command(settings.command)),
        cluster=None if file is None else str(file.absolute()),
        insecure=settings.insecure,
        fingerprint=settings.identity.fingerprint,
        token=token,
    )


def task_spec(settings: AgentSettings) -> TaskSpec:
    files = settings.files
    return TaskSpec(
        command=settings.command,
        directory=settings.cluster.program.directory,
        state=files.shim_state,
        lock=files.shim_lock,
        log=files.log,
        grace=settings.grace,
        log_size=settings.log_size,
        log_keep=settings.log_keep,
    )
