"""End of an agent: its reasons, what becomes of its task, and its exit status."""

from __future__ import annotations

import asyncio
import logging
import time

from tfscale.agent.cluster.gang import Undecided, Verb
from tfscale.agent.cluster.operation import Operation
from tfscale.agent.life.agent_parts import AgentParts
from tfscale.agent.life.jobs import Jobs
from tfscale.agent.process.passed_signals import ENDS_OF_TERMINAL
from tfscale.agent.recovery.task_recovery import GAVE_UP
from tfscale.agent.supervision.transitions import has_finished
from tfscale.core.cluster.placement.place_rule import MOVABLE
from tfscale.core.errors import TfscaleError
from tfscale.core.records.frame import Farewell
from tfscale.core.records.task_status import TaskStatus

_logger = logging.getLogger(__name__)
_UNWATCHED = 10.0
"""Seconds without a console after which an agent with `--exit-unwatched` ends: consoles connect again."""
_UNDECIDED = 300.0
"""Seconds for which the stop of what served a finished task waits for a majority of the agents."""
_AGAIN = 1.0
"""Seconds between two tries of that."""


class Departure:
    """Departure of one agent. `asked` is set once the agent has a reason to leave; each method is such a reason."""

    def __init__(self, parts: AgentParts, jobs: Jobs) -> None:
        self._parts, self._settings, self._jobs = parts, parts.settings, jobs
        self.asked = asyncio.Event()
        self.moves = False
        """True where the agent leaves because tasks were placed anew: another daemon of its seat follows."""
        self._hands_over = False
        """True once the agent leaves without its task."""
        self._has_not_started = False
        """True once a start of the task has failed without a word of its own."""
        self._watched = time.monotonic()
        """Time at which a console last watched, or the task was last alive."""
        if parts.seat is not None:
            parts.seat.leave = self._follow_placement

    def leave(self) -> None:
        """End the task and the agent; the second call kills the task, unless its launcher will: Slurm asks twice."""
        self.moves = False
        if self._hands_over:
            _logger.info("asked to end, and is leaving already: its task goes on")
        elif self.asked.is_set() and self._settings.ends_with_agent:
            _logger.info("asked to end again: the task has its time, and then its launcher's")
        elif self.asked.is_set():
            _logger.warning("asked to end again: the task is killed")
            self._parts.supervisor.kill()
        else:
            _logger.info("asked to end")
        self.asked.set()

    def hand_over(self) -> None:
        """End the agent, and leave the task to the next one."""
        if self.asked.is_set():
            _logger.warning("not handed over: the agent is ending already")
        elif why := self._why_not_handed_over():
            _logger.warning("not handed over: %s", why)
        else:
            self._hands_over = True
            _logger.info(
                "leaves, as asked%s",
                ", and its task goes on: the next agent that is started with the same command in this folder adopts it"
                if self._parts.supervisor.alive
                else "; there is no task that runs",
            )
            self.asked.set()

    def pass_on(self, number: int) -> None:
        """Give a signal to the task; where there is none, leave if a person's terminal sends that signal."""
        if not self._parts.supervisor.pass_on(number) and number in ENDS_OF_TERMINAL:
            self.leave()

    def leave_with_task(self, status: TaskStatus) -> None:
        """Leave if the task has ended by itself, no restart is pending, and the agent ends with its task."""
        supervisor = self._parts.supervisor
        by_itself = supervisor.answered is not None or supervisor.is_ended_by_others or self._parts.recovery.gave_up
        is_order = status.exit is not None and status.exit.requested and not by_itself
        is_left = status.is_over and not self._parts.recovery.is_pending
        if self._ends_with_task and is_left and not is_order:
            self.asked.set()

    def leave_unwatched(self) -> None:
        """Leave if the agent is to end without consoles, and its task has ended. Called once a second."""
        now, parts = time.monotonic(), self._parts
        if not self._settings.exit_unwatched:
            return
        is_left = parts.supervisor.status.is_over and not parts.recovery.is_pending
        if parts.feed.is_watched or not is_left:
            self._watched = now
        elif now - self._watched > _UNWATCHED:
            _logger.info("the task has ended, and no console watches")
            self.asked.set()

    def on_status(self, status: TaskStatus) -> None:
        """Leave if the task's new status is a reason to; the lead first stops the tasks that only served it."""
        if self._settings.leads and has_finished(status) and not self._parts.recovery.is_pending:
            self._jobs.start(self.finish())
        else:
            self.leave_with_task(status)

    def on_failed_command(self) -> None:
        """Leave if a command has failed and the task does not run."""
        if not self._parts.supervisor.alive:
            self.on_over(has_failed=True)

    def on_over(self, has_failed: bool) -> None:
        """Leave, once callers have the result, because the task does not run and will not be started."""
        if self._settings.exit_with_task:
            self._jobs.start(self._leave_after_command(has_failed))

    async def finish(self) -> None:
        """Stop the tasks that only served the own, finished task; leave if the agent is to end with its task."""
        try:
            if (operation := await self._finishing()) is not None:
                async for _ in operation.progress():
                    pass
        except TfscaleError as error:
            _logger.error("what served %s is left: %s; stop it by hand", self._settings.task, error)
        if self._ends_with_task:
            self.asked.set()

    async def _finishing(self) -> Operation | None:
        """Return the stop that `Gang.finish` has begun, trying again for a while where no majority answers."""
        loop, refusal = asyncio.get_running_loop(), ""
        until = loop.time() + _UNDECIDED
        while True:
            try:
                return await self._parts.gang.finish()
            except Undecided as error:
                if loop.time() >= until:
                    raise
                if str(error) != refusal:
                    _logger.warning("what served %s runs until a majority agrees: %s", self._settings.task, error)
                refusal = str(error)
            await asyncio.sleep(_AGAIN)

    async def drain(self) -> None:
        """End the task, unless it goes on without this agent."""
        if self._hands_over or self._stays:
            self._parts.local.hand_over()
        elif self.moves:
            await self._parts.local.drain("its tasks are placed anew")
        else:
            await self._parts.local.drain()

    @property
    def farewell(self) -> Farewell:
        """Last words to consoles."""
        return Farewell(self._hands_over and self._parts.supervisor.alive, self.moves)

    @property
    def exit_status(self) -> int:
        """Exit status of the agent: 0 unless it ends with its task, else the task's, -n where signal n ended it.

        It is 93 where the task was given up, 1 where its end is not known or it could not be started, and 0 where it
        only served the lead's task.
        """
        if not self._settings.exit_with_task:
            return 0
        if self._parts.recovery.gave_up:
            return GAVE_UP
        end = self._parts.supervisor.status.exit
        if end is None or (end.requested and self._has_not_started):
            return 1
        if self._parts.journal.entry.ended_by == Verb.FINISH:
            return 0
        return -end.signal if end.signal is not None else 1 if end.code is None else end.code

    @property
    def _ends_with_task(self) -> bool:
        """True where the agent leaves when its task does, or a person's terminal has asked the task to end."""
        return self._settings.exit_with_task or self._parts.supervisor.answered in ENDS_OF_TERMINAL

    @property
    def _stays(self) -> bool:
        """True where the own task keeps its seat while other tasks are placed anew."""
        seat, task = self._parts.seat, self._settings.task
        return self.moves and seat is not None and seat.task == task and task.role not in MOVABLE

    def _follow_placement(self) -> None:
        """End, so that the daemon of this seat's new task can begin."""
        seat = self._parts.seat
        is_followed = seat is None or seat.placement.seats == self._settings.cluster.agents
        if not is_followed and not self.asked.is_set():
            self.moves = True
            self.asked.set()

    def _why_not_handed_over(self) -> str | None:
        if self._settings.ends_container:
            return "its container would end with it, and the task too; give the container another process 1"
        if self._settings.ends_with_agent:
            return "with --ends-with-agent its task would end with it"
        if self._settings.exit_with_task:
            return "with --exit-with-task its end stands for the task's; start agents that are to leave without it"
        return None

    async def _leave_after_command(self, has_failed: bool) -> None:
        await self._parts.gang.settle()
        if self._parts.supervisor.alive or self._parts.recovery.is_pending:  # a start may have come, or follow
            return
        self._has_not_started = has_failed
        self.asked.set()
