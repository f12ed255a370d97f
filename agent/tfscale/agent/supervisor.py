"""Supervision of one task through its shim: a frozen spec, a state machine, a result. Standard library alone.

    PENDING ---start---> STARTING ---shim: running---> RUNNING ---stop---> STOPPING
                            |                             |                   |
                            +------- shim: ended ---------+-------------------+----> EXITED
                            +------- shim gone without a word ----------------+----> LOST

EXITED and LOST lead to STARTING again. A shim that survived its agent is adopted: PENDING goes by STARTING to where
the task is. Everything that happens arrives as an event (the shim's
pipe, its pidfd); nothing is polled but an adopted shim that is just starting.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tfscale.agent import shim
from tfscale.agent.logs import last_lines
from tfscale.agent.shimstate import ShimState, read_state
from tfscale.core.errors import TfscaleError
from tfscale.core.log_clues import last_words
from tfscale.core.records import Exit, TaskState, TaskStatus

ALIVE = frozenset({TaskState.STARTING, TaskState.RUNNING, TaskState.STOPPING})
_ADOPTION_PATIENCE = 10.0
_ADOPTION_LOOK = 0.02
_LAST_LINES = 400
"""Of a failed task's log, among which the one that matters is looked for."""


class SupervisionError(TfscaleError):
    """The task's shim cannot be started, or is not what its files say."""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """What does not change from start to start."""

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
    """Starts, adopts, stops one task. `on_change` hears every new status, on the event loop."""

    def __init__(self, spec: TaskSpec, on_change: Callable[[TaskStatus], None]) -> None:
        self._spec = spec
        self._on_change = on_change
        self._status = TaskStatus(TaskState.PENDING)
        self._state: ShimState | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: int | None = None
        self._pidfd: int | None = None
        self._received = b""
        self._asked: tuple[signal.Signals, str] | None = None
        self._funeral: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    @property
    def status(self) -> TaskStatus:
        return self._status

    @property
    def alive(self) -> bool:
        """Whether the task, or the shim that starts it, lives."""
        return self._status.state in ALIVE

    async def start(self, launch: Launch) -> TaskStatus:
        """Start the task; answers when its process is there, or when it has ended already.

        Raises SupervisionError when the shim itself cannot be started.
        """
        assert not self.alive, "stop the task before it is started again"
        lock = _lock(self._spec.lock)
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
        self._begin(launch.generation, launch.attempt, launch.reason)
        self._listen(reader)
        self._guard(self._process.pid)
        return await self._until(lambda status: status.state is not TaskState.STARTING)

    async def adopt(self, generation: int, attempt: int) -> TaskStatus:
        """Take over what an earlier agent left: a living shim of whatever attempt, or the end of this attempt.

        PENDING when it left nothing. Raises SupervisionError when the shim that holds the lock starts no task.
        """
        if _holds(self._spec.lock):
            self._take_over(await self._living())
        else:
            state = read_state(self._spec.state)
            if state is not None and (state.generation, state.attempt) == (generation, attempt):
                await self._inherit(state)
        return self._status

    def _take_over(self, state: ShimState) -> None:
        self._begin(state.generation, state.attempt, "adopted: the task outlived its agent")
        self._guard(state.shim_pid)
        self._take(state)

    async def _inherit(self, state: ShimState) -> None:
        self._state = state
        self._begin(state.generation, state.attempt, "ended while no agent was there")
        if state.ended is not None:
            self._become(self._exited(state))
        else:
            await self._lose()

    async def stop(self, reason: str) -> TaskStatus:
        """End the task (SIGTERM, and after the grace period SIGKILL); answers when it has ended."""
        self._ask(signal.SIGTERM, reason)
        return await self.ended()

    def kill(self) -> None:
        """Kill the task now."""
        self._ask(signal.SIGINT, "killed")

    async def ended(self) -> TaskStatus:
        """Wait until the task does not live."""
        return await self._until(lambda status: status.state not in ALIVE)

    async def _until(self, reached: Callable[[TaskStatus], bool]) -> TaskStatus:
        while not reached(self._status):
            await self._changed.wait()
        return self._status

    def _spawn(self, launch: Launch, writer: int, lock: int) -> subprocess.Popen[bytes]:
        spec = self._spec
        options: shim.Options = {
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

    async def _living(self) -> ShimState:
        """The state of the shim that holds the lock, as soon as it has started its task."""
        deadline = asyncio.get_running_loop().time() + _ADOPTION_PATIENCE
        while asyncio.get_running_loop().time() < deadline:
            state = read_state(self._spec.state)
            if (
                state is not None
                and shim.start_time(state.shim_pid) == state.shim_started
                and state.boot == shim.boot_id()
            ):
                return state
            await asyncio.sleep(_ADOPTION_LOOK)
        raise SupervisionError(f"a process holds {self._spec.lock} but is no shim: end it, then start the agent again")

    def _begin(self, generation: int, attempt: int, reason: str) -> None:
        self._asked = None
        self._become(TaskStatus(TaskState.STARTING, generation, attempt, reason=reason))

    def _listen(self, reader: int) -> None:
        self._pipe, self._received = reader, b""
        asyncio.get_running_loop().add_reader(reader, self._on_word)

    def _guard(self, shim_pid: int) -> None:
        try:
            self._pidfd = os.pidfd_open(shim_pid)
        except ProcessLookupError:
            self._on_shim_end()
            return
        asyncio.get_running_loop().add_reader(self._pidfd, self._on_shim_end)

    def _on_word(self) -> None:
        assert self._pipe is not None
        try:
            data = os.read(self._pipe, 1 << 16)
        except BlockingIOError:
            return
        if not data:
            self._unlisten()
            return
        *lines, self._received = (self._received + data).split(b"\n")
        for state in filter(None, map(ShimState.from_json, lines)):
            self._take(state)

    def _take(self, state: ShimState) -> None:
        self._state = state
        if state.task_pid is not None and self._status.state is TaskState.STARTING:
            self._become(replace(self._status, state=TaskState.RUNNING, pid=state.task_pid, started=state.started))
            if state.requested:
                self._become(replace(self._status, state=TaskState.STOPPING))
            elif self._asked is not None:
                self._ask(*self._asked)

    def _on_shim_end(self) -> None:
        if self._pipe is not None:
            self._on_word()
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        self._unlisten()
        if self._process is not None:
            self._process.wait()
            self._process = None
        state = self._last_word()
        if state is not None and state.ended is not None:
            self._become(self._exited(state))
        else:
            self._funeral = asyncio.create_task(self._lose())

    def _last_word(self) -> ShimState | None:
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
        """The shim died first: nobody can know how the task ends, so that it must not go on unwatched."""
        state, killed = self._state, 0
        if state is not None and state.boot == shim.boot_id():
            killed = await asyncio.to_thread(shim.kill_session, state.shim_pid, state.shim_started)
        reason = "its shim died" + (f"; what it left ({killed} processes) was killed" if killed else "")
        self._become(replace(self._status, state=TaskState.LOST, reason=reason))

    def _ask(self, number: signal.Signals, reason: str) -> None:
        if not self.alive:
            return
        self._asked = (number, reason)
        if self._pidfd is None or self._status.state is TaskState.STARTING:
            return  # a shim that has not spoken yet would die of the signal: `_take` asks again
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)
        self._become(replace(self._status, state=TaskState.STOPPING, reason=reason))

    def _become(self, status: TaskStatus) -> None:
        if status == self._status:
            return
        self._status = status
        self._changed.set()
        self._changed = asyncio.Event()
        self._on_change(status)

    def _unlisten(self) -> None:
        if self._pipe is not None:
            asyncio.get_running_loop().remove_reader(self._pipe)
            os.close(self._pipe)
            self._pipe = None


def _lock(path: Path) -> int | None:
    """A descriptor that holds the lock, None when somebody else does. It is inherited, not handed over: the shim's
    copy keeps the lock from before the shim's first instruction until its last."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _holds(path: Path) -> bool:
    """Whether a living shim holds the lock."""
    descriptor = _lock(path)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False
