"""Supervision of one task through its shim: a frozen spec, a state machine, a result. Standard library alone.

`transitions.py` has the legal transitions, docs/how-it-works/ownership.md the diagram. A shim that survived its agent
is adopted: PENDING leads through STARTING to the state of the task. Everything that happens arrives as an event (on
the shim's pipe or its pidfd); only an adopted shim that is just starting is polled.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tfscale.agent.on_demand.task_log import last_lines
from tfscale.agent.supervision import shim
from tfscale.agent.supervision.shim_state import ShimState, read_state
from tfscale.agent.supervision.transitions import TRANSITIONS, InvalidTransition, log_transition
from tfscale.core.errors import TfscaleError
from tfscale.core.log_clues import last_words
from tfscale.core.records import Exit, TaskState, TaskStatus

_logger = logging.getLogger(__name__)
ALIVE = frozenset({TaskState.STARTING, TaskState.RUNNING, TaskState.STOPPING})
_ADOPTION_TIMEOUT = 10.0
"""Seconds for a shim that is just starting to write its state."""
_ADOPTION_POLL = 0.02
"""Seconds between two reads of that state."""
_STORY = 20
"""Newest statuses that an InvalidTransition shows."""
_LAST_LINES = 400
"""Lines at the end of a failed task's log that are searched for the cause."""


class SupervisionError(TfscaleError):
    """A shim that cannot be started, or a process that holds a shim's lock and is none."""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """Properties of a task that are the same at each of its starts."""

    command: tuple[str, ...]
    directory: str | None
    state: Path
    lock: Path
    log: Path
    grace: float
    """Seconds between SIGTERM and SIGKILL."""
    log_size: int
    """Bytes at which the log is rotated."""
    log_keep: int


@dataclass(frozen=True, slots=True)
class Launch:
    """One start of the task."""

    generation: int
    attempt: int
    environment: Mapping[str, str]
    reason: str


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
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: int | None = None
        self._pidfd: int | None = None
        self._received = b""
        self._request: tuple[signal.Signals, str] | None = None
        """Signal and reason of the newest request to end the task."""
        self._losing: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    @property
    def status(self) -> TaskStatus:
        return self._status

    @property
    def alive(self) -> bool:
        """True while the task, or the shim that starts it, is alive."""
        return self._status.state in ALIVE

    async def start(self, launch: Launch) -> TaskStatus:
        """Start the task and wait until its process exists, or has ended already.

        Raises SupervisionError when the shim itself cannot be started.
        """
        assert not self.alive, "stop the task before it is started again"
        lock = _try_lock(self._spec.lock)
        if lock is None:
            raise SupervisionError(f"another shim holds {self._spec.lock}: end the process that has it open")
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self._process = self._spawn(launch, writer, lock)
        except OSError as error:
            os.close(reader)
            raise SupervisionError(f"the shim cannot be started: {error}") from error
        finally:
            os.close(writer)
            os.close(lock)
        self._state = None
        self._begin(launch.generation, launch.attempt, launch.reason)
        self._watch_pipe(reader)
        self._watch_process(self._process.pid)
        return await self._until(lambda status: status.state is not TaskState.STARTING)

    async def adopt(self, generation: int, attempt: int) -> TaskStatus:
        """Take over from an earlier agent: a living shim of any attempt, or the end of the given attempt.

        Return a status of PENDING if there is neither. Raises SupervisionError when the process that holds the shim's
        lock starts no task.
        """
        if _is_locked(self._spec.lock):
            self._take_over(await self._living_shim())
        else:
            state = read_state(self._spec.state)
            if state is not None and (state.generation, state.attempt) == (generation, attempt):
                await self._inherit(state)
        return self._status

    def _take_over(self, state: ShimState) -> None:
        self._begin(state.generation, state.attempt, "adopted: the task outlived its agent")
        self._watch_process(state.shim_pid)
        self._apply(state)

    async def _inherit(self, state: ShimState) -> None:
        self._state = state
        self._begin(state.generation, state.attempt, "ended while no agent was there")
        if state.ended is not None:
            self._become(self._exited(state))
        else:
            await self._lose()

    async def stop(self, reason: str) -> TaskStatus:
        """End the task (SIGTERM, and after the grace period SIGKILL) and wait until it has ended."""
        self._signal(signal.SIGTERM, reason)
        return await self.ended()

    def kill(self) -> None:
        """Kill the task now."""
        self._signal(signal.SIGINT, "killed")

    async def ended(self) -> TaskStatus:
        """Wait until the task is not alive."""
        return await self._until(lambda status: status.state not in ALIVE)

    async def _until(self, reached: Callable[[TaskStatus], bool]) -> TaskStatus:
        while not reached(self._status):
            await self._changed.wait()
        return self._status

    def _spawn(self, launch: Launch, writer: int, lock: int) -> subprocess.Popen[bytes]:
        spec = self._spec
        options: shim.ShimOptions = {
            "state": str(spec.state),
            "log": str(spec.log),
            "log_size": spec.log_size,
            "log_keep": spec.log_keep,
            "grace": spec.grace,
            "generation": launch.generation,
            "attempt": launch.attempt,
            "directory": spec.directory,
            "agent": writer,
            "command": list(spec.command),
        }
        with spec.log.open("ab") as errors:
            return subprocess.Popen(
                [sys.executable, "-IS", shim.__file__, json.dumps(options)],
                env=dict(launch.environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                pass_fds=(writer, lock),
            )

    async def _living_shim(self) -> ShimState:
        """Return the state of the shim that holds the lock, once that has written it."""
        deadline = asyncio.get_running_loop().time() + _ADOPTION_TIMEOUT
        while asyncio.get_running_loop().time() < deadline:
            state = read_state(self._spec.state)
            if (
                state is not None
                and shim.start_time(state.shim_pid) == state.shim_started
                and state.boot == shim.boot_id()
            ):
                return state
            await asyncio.sleep(_ADOPTION_POLL)
        raise SupervisionError(f"a process holds {self._spec.lock} but is no shim: end it, then start the agent again")

    def _begin(self, generation: int, attempt: int, reason: str) -> None:
        self._request = None
        self._become(TaskStatus(TaskState.STARTING, generation, attempt, reason=reason))

    def _watch_pipe(self, reader: int) -> None:
        self._pipe, self._received = reader, b""
        asyncio.get_running_loop().add_reader(reader, self._on_message)

    def _watch_process(self, shim_pid: int) -> None:
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
        self._state = state
        if state.task_pid is not None and self._status.state is TaskState.STARTING:
            self._become(replace(self._status, state=TaskState.RUNNING, pid=state.task_pid, started=state.started))
            if state.requested:
                self._become(replace(self._status, state=TaskState.STOPPING))
            elif self._request is not None:
                self._signal(*self._request)

    def _on_shim_end(self) -> None:
        if self._pipe is not None:
            self._on_message()
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        self._close_pipe()
        if self._process is not None:
            self._process.wait()
            self._process = None
        state = self._final_state()
        if state is not None and state.ended is not None:
            self._become(self._exited(state))
        else:
            self._losing = asyncio.create_task(self._lose())

    def _final_state(self) -> ShimState | None:
        if self._state is None or self._state.ended is None:
            written = read_state(self._spec.state)
            own = (self._status.generation, self._status.attempt)
            if written is not None and (written.generation, written.attempt) == own:
                self._state = written
        return self._state

    def _exited(self, state: ShimState) -> TaskStatus:
        assert state.ended is not None
        failed = state.code != 0 and not state.requested
        log = last_words(last_lines(self._spec.log, _LAST_LINES)) if failed else ()
        if state.lost_output:
            _logger.warning("%d bytes of its output could not be written to %s", state.lost_output, self._spec.log)
        end = Exit(state.code, state.signal, state.ended, state.requested, log)
        return TaskStatus(
            TaskState.EXITED,
            state.generation,
            state.attempt,
            pid=state.task_pid,
            started=state.started,
            exit=end,
            reason=state.message or self._status.reason,
        )

    async def _lose(self) -> None:
        """Kill a task whose shim died first: its exit status would stay unknown."""
        state, killed = self._state, 0
        if state is not None and state.boot == shim.boot_id():
            killed = await asyncio.to_thread(shim.kill_session, state.shim_pid, state.shim_started)
        reason = "its shim died" + (f"; what it left ({killed} processes) was killed" if killed else "")
        if state is None:
            # It could not send anything yet: its error is in the task's log, which is also its stderr.
            reason = f"its shim died at its start: {''.join(last_lines(self._spec.log, 1)) or 'it wrote nothing'}"
        self._become(replace(self._status, state=TaskState.LOST, reason=reason))

    def _signal(self, number: signal.Signals, reason: str) -> None:
        if not self.alive:
            return
        self._request = (number, reason)
        if self._pidfd is None or self._status.state is TaskState.STARTING:
            return  # a shim that has sent nothing yet would die of the signal: `_apply` sends it later
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)
        self._become(replace(self._status, state=TaskState.STOPPING, reason=reason))

    def _become(self, status: TaskStatus) -> None:
        if status == self._status:
            return
        if status.state not in TRANSITIONS[self._status.state]:
            raise InvalidTransition(self._story, status.state)
        self._status = status
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
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _is_locked(path: Path) -> bool:
    descriptor = _try_lock(path)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False
