"""Life of an agent: startup, serve, shutdown."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tfscale.agent import wire
from tfscale.agent.cluster.present_lead import PresentLead
from tfscale.agent.life.agent_parts import Listeners, build_parts
from tfscale.agent.life.carried_orders import carried_orders
from tfscale.agent.life.departure import Departure
from tfscale.agent.life.first_start import FirstStart
from tfscale.agent.life.jobs import Jobs
from tfscale.agent.life.own_process import OwnProcess
from tfscale.agent.life.self_description import description, local_agent, summary
from tfscale.agent.on_demand.stack_requests import is_of_task
from tfscale.agent.placement.seat import Seat
from tfscale.agent.placement.seat_peer import SeatPeer
from tfscale.agent.placement.voting import Voting
from tfscale.agent.process.sessions import is_stopped
from tfscale.agent.serving.agent_server import AgentServer
from tfscale.agent.serving.report_server import ReportServer
from tfscale.agent.serving.service import AgentService
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision.task_environment import report_socket
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.local.local_agents import Announcement, announced
from tfscale.core.errors import TfscaleError
from tfscale.core.log_clues import UNMEASURED
from tfscale.core.records.frame import Frame
from tfscale.core.records.milestone import Milestone
from tfscale.core.records.probe_status import ProbeStatus
from tfscale.core.records.task_status import TaskState, TaskStatus
from tfscale.core.report_schedule import until_next

if TYPE_CHECKING:
    from tfscale.agent.metrics.agent_page import TaskRecord

_logger = logging.getLogger(__name__)
_RARELY = 3
"""Ticks from one look at the socket and the announcement to the next: only a logout removes these files."""


class Daemon:
    """Agent of one task. `run` is its whole life: startup, serve, shutdown.

    `seat`, the others' `seats` and the agent's `voting` are None where tasks stay where the cluster file has them;
    `process` is None where no other agent is in the process.
    """

    def __init__(
        self,
        settings: AgentSettings,
        process: OwnProcess | None = None,
        seat: Seat | None = None,
        seats: Mapping[Address, SeatPeer] | None = None,
        voting: Voting | None = None,
    ) -> None:
        process = process or OwnProcess()
        listeners = Listeners(
            on_status=self._on_status,
            on_verdict=self._on_verdict,
            on_over=lambda has_failed: self._departure.on_over(has_failed),
            on_failed_command=lambda: self._departure.on_failed_command(),
        )
        self._settings = settings
        self._parts = build_parts(settings, process, seat, seats or {}, voting, listeners)
        self._present_lead = PresentLead([*settings.cluster.tasks], settings.task, self._parts.peers)
        self._jobs = Jobs()
        self._departure = Departure(self._parts, self._jobs)
        self._first_start = FirstStart(self._parts, self._jobs, self._departure)
        self._server: AgentServer | None = None
        self._report_server: ReportServer | None = None
        self._sequence = 0
        """Number of the next frame."""
        self._steps = 0
        """Steps that the task had reported at the last sample."""
        self._shown: TaskRecord | None = None
        """Place of the task on the page for Prometheus, None without such a page."""
        self._logged_failures: set[tuple[str, type]] = set()
        """(operation, exception type) pairs that are in the log already."""

    @property
    def moves(self) -> bool:
        """True where the daemon has ended because tasks were placed anew: another daemon follows."""
        return self._departure.moves

    def leave(self) -> None:
        """End the task and the agent; the second call kills the task."""
        self._departure.leave()

    def hand_over(self) -> None:
        """End the agent, and leave the task to the next one."""
        self._departure.hand_over()

    def pass_on(self, number: int) -> None:
        """Give a signal to the task."""
        self._departure.pass_on(number)

    def summary(self) -> str:
        """Return what the task does, in words for a service manager."""
        return summary(self._parts)

    def is_task_stopped(self) -> bool:
        """Return whether a signal has stopped the task."""
        return (pid := self._parts.supervisor.pid) is not None and is_stopped(pid)

    async def run(self) -> int:
        """Serve until asked to end, and return the exit status.

        Raises TfscaleError if the agent cannot start, NotBegun where another agent of the process cannot.
        """
        page = self._parts.process.page
        with self._parts.process.living(self), page.shown(self._settings) if page else nullcontext() as self._shown:
            return await self._run()

    async def _run(self) -> int:
        parts, settings = self._parts, self._settings
        # The port first: an agent that cannot have it is announced to nobody.
        self._server = AgentServer(settings, self._service(), parts.certificates, parts.token, settings.files.audit)
        own = local_agent(settings, str(settings.task), parts.started, parts.token)
        with announced(own, os.environ) as announcement:
            try:
                await self._startup()
            except BaseException:
                await self._stop_servers()
                raise
            ticks = asyncio.create_task(self._tick(announcement))
            await self._departure.asked.wait()
            await self._drain()
            ticks.cancel()
            # Peers may ask until the server stops, and need the token that the announcement has.
            await self._shutdown()
        status, end = self._departure.exit_status, parts.supervisor.status.exit
        if not self._departure.moves:
            parts.process.ended(status, time.time() if end is None else end.at)
        return status

    async def _startup(self) -> None:
        parts, settings = self._parts, self._settings
        status = await self._first_start.adopt()
        self._report_server = ReportServer(
            Path(parts.local.socket), parts.reports, self._report_socket, self._is_of_task
        )
        await self._report_server.start()
        parts.local.socket = str(self._report_server.path)
        await parts.process.ready()
        parts.sampler.start()
        parts.greetings.start()
        self._call_safely("sample", self._sample)
        await self._first_start.begin(status)
        self._publish()
        assert self._server is not None
        await self._server.start()
        if parts.voting is not None:
            parts.voting.start()
        _logger.info("serving %s; run %s, its log is %s", settings.listen, settings.run, settings.files.log)
        if settings.cluster_file is not None:
            _logger.info("the cluster is that of %s", settings.cluster_file)
        if parts.mover is not None:
            self._jobs.start(parts.mover.keep())

    async def _tick(self, announcement: Announcement) -> None:
        for tick in itertools.count(1):
            await asyncio.sleep(until_next(time.time(), self._settings.position))
            if tick % _RARELY == 0:
                await self._keep_socket()
                self._call_safely("announcement", announcement.keep)
            self._call_safely("certificate", self._parts.certificate_watch.look)
            self._call_safely("shim", self._parts.supervisor.look)
            self._call_safely("sample", self._sample)
            self._call_safely("frame", self._publish)
            self._call_safely("recovery", self._parts.recovery.look)
            self._call_safely("status of the TrainJob", self._tell_trainer)
            self._departure.leave_unwatched()

    def _report_socket(self) -> str:
        return report_socket(self._settings)

    def _is_of_task(self, pid: int) -> bool:
        task = self._parts.supervisor.pid
        return task is not None and is_of_task(pid, task)

    async def _keep_socket(self) -> None:
        """Have the next start of the task report to a socket that exists, also when the runtime folder was removed."""
        assert self._report_server is not None
        try:
            await self._report_server.keep()
        except TfscaleError as error:
            self._log_once("socket", error)
        self._parts.local.socket = str(self._report_server.path)

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
        parts = self._parts
        parts.standstill.look(parts.reports.collective)
        goes_on, self._steps = parts.reports.steps > self._steps, parts.reports.steps
        parts.pace.look(parts.reports.steps)
        parts.sampler.sample(parts.supervisor.pid, parts.greetings.heard, parts.standstill.place, goes_on=goes_on)
        self._look_for_probe()

    def _look_for_probe(self) -> None:
        if self._parts.reports.probe is None:
            self._parts.absent_probe.look(self._parts.supervisor.pid, self._parts.supervisor.status)

    def _tell_trainer(self) -> None:
        parts = self._parts
        if parts.trainer_status is not None and parts.supervisor.status.state is TaskState.RUNNING:
            parts.trainer_status.look(parts.reports.training)

    async def _tell_trainer_of_end(self) -> None:
        """Tell Kubeflow's Trainer how the task has ended, unless it goes on."""
        parts = self._parts
        if parts.trainer_status is None or self.moves or (end := parts.supervisor.status.exit) is None:
            return
        is_done = end.code == 0 and not end.requested
        await asyncio.to_thread(parts.trainer_status.finish, parts.reports.training, is_done=is_done)

    async def _drain(self) -> None:
        self._jobs.cancel()
        if self.moves:
            await self._present_lead.settle()
        await self._parts.recovery.close()
        await self._parts.gang.close()
        await self._departure.drain()

    async def _shutdown(self) -> None:
        parts = self._parts
        self._publish()
        await self._tell_trainer_of_end()
        parts.feed.close(self._departure.farewell)
        parts.sampler.stop()
        parts.greetings.stop()
        parts.certificate_watch.stop()
        await asyncio.gather(*(peer.close() for peer in parts.peers.values()))
        await self._stop_servers()
        parts.feed.forget()
        _logger.info("goes on where tasks are placed now" if self.moves else "ended")

    async def _stop_servers(self) -> None:
        await asyncio.gather(*(server.stop() for server in (self._server, self._report_server) if server is not None))

    def _service(self) -> AgentService:
        parts, leads = self._parts, self._settings.leads
        return AgentService(
            settings=self._settings,
            describe=lambda: description(parts),
            feed=parts.feed,
            local=parts.local,
            gang=parts.gang,
            present_lead=self._present_lead,
            acting=parts.recovery.acting,
            stragglers=parts.recovery.stragglers if leads else None,
            take_stack=parts.take_stack,
            profile=lambda seconds, fetch: parts.reports.profiler.profile(
                seconds, self._settings.files.profiles, fetch=fetch
            ),
            examiner=parts.examiner,
            orders=carried_orders(parts),
            seat=parts.seat,
            mover=parts.mover,
            voting=parts.voting,
        )

    def _on_status(self, status: TaskStatus) -> None:
        self._call_safely("a look for the probe", self._look_for_probe)
        self._publish()
        self._call_safely("recovery", self._parts.recovery.look)
        self._departure.on_status(status)

    def _on_verdict(self) -> None:
        """Publish the fate of the failed task; leave if no restart follows."""
        self._publish()
        self._departure.leave_with_task(self._parts.supervisor.status)

    def _publish(self) -> None:
        parts = self._parts
        parts.reports.hear()
        frame = Frame(
            sequence=self._sequence,
            at=time.time(),
            status=parts.supervisor.status,
            probe=self._with_troubles(parts.reports.probe or parts.absent_probe.status),
            collective=parts.reports.collective,
            host=parts.sampler.host,
            gpus=parts.sampler.gpus,
            training=parts.reports.training,
            activities=parts.reports.take_activities(),
            coordinator=parts.reports.coordinator,
        )
        self._sequence += 1
        steps = parts.reports.take_steps()
        parts.feed.publish(wire.encode_frame(frame, steps), Milestone.of(frame))
        if self._shown is not None:
            self._shown.publish(frame, steps)

    def _with_troubles(self, probe: ProbeStatus | None) -> ProbeStatus | None:
        """Return the status of the probe, with the agent's own troubles in its message for the console."""
        unknown = self._parts.settings.others_unknown
        others = (f"{UNMEASURED}{unknown}",) if unknown else ()
        troubles = (*others, *self._parts.supervisor.troubles, *self._parts.certificate_watch.troubles)
        return replace(probe, warnings=(*troubles, *probe.warnings)) if probe is not None and troubles else probe
