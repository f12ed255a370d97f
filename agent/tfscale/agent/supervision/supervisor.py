"""Supervision of one task through its shim: a frozen spec, a state machine, a result. Standard library alone.

`transitions.py` has the legal transitions, docs/how-it-works/ownership.md the diagram. A shim that survived its agent
is adopted: PENDING leads through STARTING to the state of the task. Every change arrives as an event (on the shim's
pipe or its pidfd); only an adopted shim that is just starting is polled.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import logging
import os
import shlex
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tfscale.agent.file_thread import DiskHangs, FileThread
from tfscale.agent.on_demand.task_log import last_lines
from tfscale.agent.private_file import open_private
from tfscale.agent.process import sessions
from tfscale.agent.process.passed_signals import give, may_end
from tfscale.agent.supervision.claimed_address import claim, holder
from tfscale.agent.supervision.shim import KILL_NOW
from tfscale.agent.supervision.shim_process import Launch, ShimProcess, TaskSpec, other_command, shown_command
from tfscale.agent.supervision.shim_state import ShimState, read_state
from tfscale.agent.supervision.transitions import TRANSITIONS, InvalidTransition, log_transition
from tfscale.core.errors import TfscaleError
from tfscale.core.failure.clues import last_words
from tfscale.core.records.task_status import Exit, Reason, TaskState, TaskStatus
from tfscale.core.text import signal_name

_logger = logging.getLogger(__name__)
ALIVE = frozenset({TaskState.STARTING, TaskState.RUNNING, TaskState.STOPPING})
_ADOPTION_TIMEOUT = 10.0
"""Seconds for a shim that is just starting to write its state."""
_ADOPTION_POLL = 0.02
"""Seconds between two reads of that state."""
_SHIM_PATIENCE = 20.0
"""Seconds beyond the grace period for a shim to kill remaining processes, and to write its files while a disk hangs."""
_DISK_PATIENCE = 3.0
"""Seconds for a disk to give a state or the end of a log."""
_STORY = 20
"""Newest statuses that an InvalidTransition shows."""
_LAST_LINES = 400
"""Lines at the end of a failed task's log that are searched for the cause."""


class SupervisionError(TfscaleError):
    """A shim that cannot be started, or a process that holds a shim's lock and is no shim."""


class Supervisor:
    """Owner of one task: starts, adopts and stops it.

    `on_change` is called on the event loop with every new status.
    """

    def __init__(self, spec: TaskSpec, on_change: Callable[[TaskStatus], None]) -> None:
        self._spec = spec
        self._on_change = on_change
        self._status = TaskStatus(TaskState.PENDING)
        self._story = deque([self._status], maxlen=_STORY)
        self._state: ShimState | None = None
        self._files = FileThread(_DISK_PATIENCE)
        self._process: ShimProcess | None = None
        self._shim_pid = 0
        self._pipe: int | None = None
        self._pidfd: int | None = None
        self._received = b""
        self._request: tuple[int, str] | None = None
        """Signal and reason of the newest request to end the task, by this agent or by one before it."""
        self._polling: asyncio.Task[None] | None = None
        self._concluding: asyncio.Task[None] | None = None
        self._is_shim_stopped = False
        self._why_ended = ""
        """Reason of the newest end, without what becomes of the task then."""
        self.is_end_unknown = False
        """True where the last state is damaged: nobody knows whether the task has finished."""
        self._passed: tuple[int, float] | None = None
        """Newest signal that was passed on and may end the task, and its Unix time."""
        self._early_signals: list[int] = []
        """Signals for a task whose process does not exist yet."""
        self.is_ended_by_others = False
        """True where no agent has asked the task to end, but somebody who sent SIGTERM to its shim."""
        self.answered: int | None = None
        """Passed signal that the task has ended for: within the grace period after it."""
        self._changed = asyncio.Event()

    @property
    def status(self) -> TaskStatus:
        return self._status

    @property
    def command(self) -> tuple[str, ...]:
        """Command of the living task, else of its next start, as it is shown."""
        state = self._state if self.alive else None
        return tuple(shown_command(self._spec.command)) if state is None else state.argv

    @property
    def pid(self) -> int | None:
        """Process of the task, None while it does not live."""
        return self._status.pid if self.alive else None

    @property
    def alive(self) -> bool:
        """True while the task, or the shim that starts it, is alive."""
        return self._status.state in ALIVE

    @property
    def _asked_because(self) -> str:
        """Reason with which this agent has asked the task to end; the reason of the start does not count."""
        return "" if self._request is None else self._request[1]

    async def start(self, launch: Launch) -> TaskStatus:
        """Start the task and wait until its process exists, or has ended already.

        Raises SupervisionError when the shim itself cannot be started, and DiskHangs.
        """
        assert not self.alive, "stop the task before it is started again"
        lock = await self._files.call(lambda: _try_lock(self._spec.lock), _unlock)
        if lock is None:
            raise SupervisionError(f"another shim holds {self._spec.lock}: end the process that has it open")
        try:
            with self._claimed() as claimed:
                self._process, reader = self._begun(launch, [lock, *claimed])
        finally:
            os.close(lock)
        self._state, self._is_shim_stopped = None, False
        self._begin(launch.generation, launch.attempt, launch.reason)
        self._watch_pipe(reader)
        self._watch_process(self._process.pid)
        return await self.started()

    def _begun(self, launch: Launch, locks: Sequence[int]) -> tuple[ShimProcess, int]:
        """Start the shim, and return it with the pipe that has its states. Raises SupervisionError."""
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return ShimProcess(self._spec, launch, writer, locks), reader
        except OSError as error:
            os.close(reader)
            raise SupervisionError(f"the shim cannot be started: {error}") from error
        finally:
            os.close(writer)

    @contextlib.contextmanager
    def _claimed(self) -> Iterator[list[int]]:
        """Yield the claim on the task's address, if it has one. Raises SupervisionError where another shim has it."""
        address = self._spec.address
        if not address:
            yield []
            return
        try:
            held = claim(address)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise SupervisionError(f"the shim cannot be started: {error}") from error
            other = holder(address)
            who = "" if other is None else f": kill {other}"
            raise SupervisionError(
                f"a task at {address} runs on this host already, of another run or with its state in another folder: "
                f"end it first{who}"
            ) from None
        with held:
            yield [held.fileno()]

    async def adopt(self, generation: int, attempt: int, any_command: bool = False) -> TaskStatus:
        """Take over from an earlier agent: a living shim of any attempt, or the end of the given attempt.

        Return a status of PENDING if there is neither: the end of another command says nothing about this command.
        Raises SupervisionError when the process that holds the shim's lock starts no task, or, unless `any_command`,
        when the task has another command; and DiskHangs.
        """
        if (living := await self._living_shim()) is not None:
            if other := other_command(self._spec, living.argv, living.directory):
                self._warn_of_other(living, other, any_command)
            self._take_over(living)
            return self._status
        state = await self._files.call(lambda: read_state(self._spec.state))
        if state is not None and (state.generation, state.attempt) == (generation, attempt):
            if other := other_command(self._spec, state.argv, state.directory):
                _logger.info("the last task of this run was of another command, and is left as it is: %s", other)
            else:
                await self._inherit(state)
        elif state is None and generation and await self._files.call(self._spec.state.exists):
            self._give_up(generation, attempt)
        return self._status

    def _warn_of_other(self, state: ShimState, other: str, any_command: bool) -> None:
        """Warn that the running task has another command. Raises SupervisionError unless it may be taken over."""
        if not any_command:
            raise SupervisionError(
                f"this task runs already, with another command: {other}: give --adopt to take it over, --run NAME to "
                f"leave it alone, or end it first: kill {state.shim_pid}"
            )
        own = shlex.join(shown_command(self._spec.command))
        _logger.warning("the task that is adopted runs another command: %s; a restart starts %s", other, own)

    def _take_over(self, state: ShimState) -> None:
        self._begin(
            state.generation, state.attempt, Reason("adopted: the task outlived its agent", state.restarted_for)
        )
        if state.requested:
            self._request = (signal.SIGTERM, "")
        self._watch_process(state.shim_pid)
        self._apply(state)
        if self._status.state is TaskState.STARTING:
            self._polling = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        """Read the state of an adopted shim until its task is started: its pipe ended with the earlier agent."""
        while self._status.state is TaskState.STARTING:
            if (state := await self._own_written_state()) is not None:
                self._apply(state)
            await asyncio.sleep(_ADOPTION_POLL)

    async def _inherit(self, state: ShimState) -> None:
        self._state = state
        self._begin(state.generation, state.attempt, Reason("ended while no agent was there", state.restarted_for))
        if state.ended is not None:
            self._become(await self._exited(state))
        else:
            await self._lose()

    def _give_up(self, generation: int, attempt: int) -> None:
        """Become LOST: an unknown task may have finished, and a finished run must not begin again."""
        self._begin(generation, attempt, Reason("ended while no agent was there"))
        reason = f"{self._spec.state} is damaged: whether it has finished is not known"
        self.is_end_unknown = True
        self._become(replace(self._status, state=TaskState.LOST, reason=reason))

    async def stop(self, reason: str) -> TaskStatus:
        """End the task (SIGTERM, and after the grace period SIGKILL) and wait until it has ended.

        A shim that has not ended the task by then is killed, with its remaining processes.
        """
        self._signal(signal.SIGTERM, reason)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._spec.grace + _SHIM_PATIENCE):
                return await self.ended()
        _logger.error("its shim (process %d) does not end it: it is killed", self._shim_pid)
        self._signal_shim(signal.SIGKILL)
        return await self.ended()

    def kill(self) -> None:
        """Kill the task now."""
        self._signal(KILL_NOW, "killed")

    def pass_on(self, number: int) -> bool:
        """Give the task a signal that its agent got; return False where no task runs or starts."""
        if not self.alive:
            return False
        _logger.info("passes on %s", signal_name(number))
        if may_end(number):
            self._passed = number, time.time()
        if self._status.pid is None:  # it starts
            self._early_signals.append(number)
        else:
            give(self._status.pid, number)
        return True

    def send(self, number: int) -> int:
        """Send a signal to the task's own process, and return its number. Raises SupervisionError if none runs."""
        pid = self._status.pid
        if self._status.state is not TaskState.RUNNING or pid is None:
            raise SupervisionError("the task does not run: start it first")
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            raise SupervisionError("the task has just ended: start it first") from None
        return pid

    def add_to_reason(self, words: str) -> None:
        """Add to the reason of the task's state; a running task's start is long known, and its reason is replaced."""
        before = self._status
        if before.state is not TaskState.RUNNING:
            self._status = replace(before, reason="; ".join(filter(None, (before.reason, words))))
            return
        self._status = replace(before, reason=words)
        self._on_change(self._status)

    def explain(self, words: str, restart_at: float | None = None) -> bool:
        """Add the fate of an ended task to its reason; return whether the status has changed."""
        before = self._status
        if before.is_over:
            reason = "; ".join(filter(None, (self._why_ended, words)))
            self._status = replace(before, reason=reason, restart_at=restart_at)
        return self._status != before

    def tell_waiting(self, why: str) -> None:
        """Have the status of a task that was not started yet say why."""
        if self._status.state is TaskState.PENDING:
            self._status = replace(self._status, reason=why)

    @property
    def troubles(self) -> tuple[str, ...]:
        """Sentences on faults of the shim or the log; the task may run well in spite of them."""
        stopped = f"its shim (process {self._shim_pid}) is stopped: continue it with kill -CONT {self._shim_pid}"
        stopped += ", or the task waits as soon as nobody has read its output for a while"
        lost = self._state.lost_output if self._state is not None and self.alive else 0
        unwritten = f"{lost} bytes of its output could not be written to {self._spec.log}: look at that disk"
        return (*[stopped] * (self._is_shim_stopped and self.alive), *[unwritten] * bool(lost))

    def look(self) -> None:
        """Look once a second whether the shim is stopped; a stopped shim that has to end the task is continued."""
        was_stopped = self._is_shim_stopped
        self._is_shim_stopped = self.alive and sessions.is_stopped(self._shim_pid)
        if self._is_shim_stopped and self._request is not None:
            self._signal_shim(signal.SIGCONT)
        elif self._is_shim_stopped and not was_stopped:
            _logger.warning("%s", self.troubles[0])

    async def started(self) -> TaskStatus:
        """Wait until a start under way is over."""
        return await self._until(lambda status: status.state is not TaskState.STARTING)

    async def ended(self) -> TaskStatus:
        """Wait until the task is not alive."""
        return await self._until(lambda status: status.state not in ALIVE)

    async def _until(self, reached: Callable[[TaskStatus], bool]) -> TaskStatus:
        while not reached(self._status):
            await self._changed.wait()
        return self._status

    async def _living_shim(self) -> ShimState | None:
        """Return the state of the shim that holds the lock, once it is written; None once nobody holds the lock."""
        deadline = asyncio.get_running_loop().time() + _ADOPTION_TIMEOUT
        while await self._files.call(lambda: _is_locked(self._spec.lock)):
            state = await self._written_state()
            if (
                state is not None
                and sessions.start_time(state.shim_pid) == state.shim_started
                and state.boot == sessions.boot_id()
            ):
                return state
            if asyncio.get_running_loop().time() >= deadline:
                raise self._not_adopted(state)
            await asyncio.sleep(_ADOPTION_POLL)
        return None

    def _not_adopted(self, state: ShimState | None) -> SupervisionError:
        lock = self._spec.lock
        if state is not None:
            return SupervisionError(f"a process holds {lock} but is no shim: end it, then start the agent again")
        return SupervisionError(
            f"this task runs, but its state in {self._spec.state} is missing or damaged: it is left as it is; put "
            f"the file back to have it adopted, or end the process that holds {lock}"
        )

    def _begin(self, generation: int, attempt: int, reason: Reason) -> None:
        self._request, self.is_end_unknown, self.is_ended_by_others = None, False, False
        self._passed, self.answered, self._early_signals = None, None, []
        status = TaskStatus(TaskState.STARTING, generation, attempt, reason=reason.text)
        self._become(replace(status, restarted_for=reason.restarted_for))

    def _watch_pipe(self, reader: int) -> None:
        self._pipe, self._received = reader, b""
        asyncio.get_running_loop().add_reader(reader, self._on_message)

    def _watch_process(self, shim_pid: int) -> None:
        self._shim_pid = shim_pid
        try:
            self._pidfd = os.pidfd_open(shim_pid)
        except ProcessLookupError:
            self._on_shim_end()
            return
        asyncio.get_running_loop().add_reader(self._pidfd, self._on_shim_end)

    def _on_message(self) -> None:
        assert self._pipe is not None
        try:
            data = os.read(self._pipe, 1 << 16)
        except BlockingIOError:
            return
        if not data:
            self._close_pipe()
            return
        *lines, self._received = (self._received + data).split(b"\n")
        for state in filter(None, map(ShimState.from_json, lines)):
            self._apply(state)

    def _apply(self, state: ShimState) -> None:
        before, self._state = self._state, state
        if state.lost_output and not (before and before.lost_output):
            _logger.warning("%d bytes of its output could not be written to %s", state.lost_output, self._spec.log)
        if state.task_pid is not None and self._status.state is TaskState.STARTING:
            self._become(replace(self._status, state=TaskState.RUNNING, pid=state.task_pid, started=state.started))
            if state.requested:
                self._become(replace(self._status, state=TaskState.STOPPING, reason=self._asked_because))
            elif self._request is not None:
                self._signal(*self._request)
            for number in self._early_signals:
                give(state.task_pid, number)

    def _on_shim_end(self) -> None:
        if self._pipe is not None:
            self._on_message()
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        self._close_pipe()
        words = "" if self._process is None else self._process.reap()
        self._process = None
        self._concluding = asyncio.create_task(self._conclude(words))

    async def _conclude(self, words: str) -> None:
        """Take over the shim's last state; without a state the task is lost."""
        state = await self._final_state()
        if state is not None and state.ended is not None:
            self.is_ended_by_others = state.requested and self._request is None
            self._become(await self._exited(state))
        else:
            await self._lose(words)

    async def _final_state(self) -> ShimState | None:
        if self._state is None or self._state.ended is None:
            self._state = await self._own_written_state() or self._state
        return self._state

    async def _own_written_state(self) -> ShimState | None:
        """Return the state on disk if it belongs to the newest start."""
        state, own = await self._written_state(), (self._status.generation, self._status.attempt)
        return state if state is not None and (state.generation, state.attempt) == own else None

    async def _written_state(self) -> ShimState | None:
        """Return the state on disk; None where there is none, or while the disk hangs."""
        try:
            return await self._files.call(lambda: read_state(self._spec.state))
        except DiskHangs:
            return None

    async def _last_words(self, state: ShimState) -> tuple[str, ...]:
        try:
            # Both in the thread: 400 long lines take a second, in which the agent answers others.
            return await self._files.call(
                lambda: last_words(last_lines(self._spec.log, _LAST_LINES), state.code, state.signal)
            )
        except DiskHangs as error:
            _logger.warning("its log cannot be read: %s", error)
            return ()

    async def _exited(self, state: ShimState) -> TaskStatus:
        assert state.ended is not None
        self.answered = None if state.requested else self._answered(state.ended)
        is_answer = self.answered is not None and self.answered in (state.signal, (state.code or 0) - 128)
        requested = state.requested or is_answer
        failed = state.code != 0 and not requested
        log = await self._last_words(state) if failed else ()
        if state.lost_output:
            _logger.warning("%d bytes of its output could not be written to %s", state.lost_output, self._spec.log)
        return TaskStatus(
            TaskState.EXITED,
            state.generation,
            state.attempt,
            pid=state.task_pid,
            started=state.started,
            exit=Exit(state.code, state.signal, state.ended, requested, log),
            reason=state.message or self._why_asked(state.requested, is_answer),
            restarted_for=state.restarted_for,
        )

    def _answered(self, ended: float) -> int | None:
        """Return the passed signal for which the task has ended; None where it was given more time, or no signal."""
        number, at = self._passed or (None, 0.0)
        return number if ended - at <= self._spec.grace else None

    def _why_asked(self, is_request: bool, is_answer: bool) -> str:
        if is_answer and self.answered is not None:
            return f"{signal_name(self.answered)} was sent to its agent"
        if self.is_ended_by_others:
            return "SIGTERM was sent to its shim"
        return self._asked_because if is_request else ""

    async def _lose(self, words: str = "") -> None:
        """Kill a task whose shim died first: its exit status cannot become known."""
        state, killed = self._state, 0
        if state is not None and state.boot == sessions.boot_id():
            killed = await asyncio.to_thread(sessions.kill_session, state.shim_pid, state.shim_started)
        reason = "its shim died" + (f" ({words})" if words else "")
        reason += f"; what it left ({killed} processes) was killed" if killed else ""
        if state is None:
            reason = f"its shim died at its start: {words or 'it wrote nothing'}"
        self._become(replace(self._status, state=TaskState.LOST, reason=reason))

    def _signal(self, number: int, reason: str) -> None:
        if not self.alive:
            return
        self._request = (number, reason)
        if self._pidfd is None or self._status.state is TaskState.STARTING:
            return  # a shim that has sent nothing yet would die of the signal: `_apply` sends it later
        self._signal_shim(number)
        self.look()
        self._become(replace(self._status, state=TaskState.STOPPING, reason=reason))

    def _signal_shim(self, number: int) -> None:
        if self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def _become(self, status: TaskStatus) -> None:
        if status == self._status:
            return
        if status.state not in TRANSITIONS[self._status.state]:
            raise InvalidTransition(self._story, status.state)
        self._status = status
        self._why_ended = status.reason
        self._story.append(status)
        log_transition(_logger, status, self._spec.command, adopted=self._process is None)
        self._changed.set()
        self._changed = asyncio.Event()
        self._on_change(status)

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            asyncio.get_running_loop().remove_reader(self._pipe)
            os.close(self._pipe)
            self._pipe = None


def _try_lock(path: Path) -> int | None:
    """Return a descriptor that holds the lock, None while another process holds it.

    The shim inherits the descriptor, and its copy keeps the lock from before its first instruction until its last.
    Raises SupervisionError.
    """
    try:
        descriptor = open_private(str(path), os.O_RDWR)
    except OSError as error:
        raise SupervisionError(f"{path}: cannot be opened ({error.strerror}): look at its folder") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _unlock(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)


def _is_locked(path: Path) -> bool:
    descriptor = _try_lock(path)
    _unlock(descriptor)
    return descriptor is None
