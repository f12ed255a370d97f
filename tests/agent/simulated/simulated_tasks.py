"""Processes of tasks on simulated hosts, and a supervisor that starts and adopts them in place of real shims.

States, files and transitions are the real supervisor's: only what is the kernel's is simulated.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random

from simulated.host_lives import LIFE, Clock
from tfscale.agent.checked_json import with_checksum
from tfscale.agent.supervision.shim import KILL_NOW
from tfscale.agent.supervision.shim_process import Launch, TaskSpec, shown_command
from tfscale.agent.supervision.shim_state import ShimState
from tfscale.agent.supervision.supervisor import SupervisionError, Supervisor
from tfscale.core.records.task_status import TaskStatus

_START = (0.05, 1.0)
"""Limits of the seconds from a shim's start to its task's."""
_END = (0.02, 1.5)
"""Limits of the seconds from a request to a task's end."""
_FOLLOW = (1.0, 8.0)
"""Limits of the seconds until a task ends whose gang has lost a member."""


@dataclass
class Stay:
    """Time for which a process held a role, in virtual seconds."""

    host: str
    task: str
    generation: int
    attempt: int
    began: float
    ended: float | None = None


class Processes:
    """Processes of all hosts, living and ended."""

    def __init__(self, random: Random, clocks: Mapping[str, Clock]) -> None:
        self.random, self.clocks = random, clocks
        self.stays: list[Stay] = []
        self.living: dict[tuple[str, Path], TaskProcess] = {}
        """Process by host and the lock of its shim."""
        self._last_pid = 1 << 30

    def next_pid(self) -> int:
        self._last_pid += 1
        return self._last_pid

    def on(self, host: str) -> list[TaskProcess]:
        """Return the processes of a host."""
        return [process for (at, _), process in self.living.items() if at == host]

    def break_gang(self, generation: int) -> None:
        """Have all tasks of a generation fail some seconds later, as collectives do without one of their members."""
        for process in self.living.values():
            if process.stay.generation == generation:
                asyncio.get_running_loop().call_later(self.random.uniform(*_FOLLOW), process.end, 1)

    def crash(self, host: str) -> None:
        """End all processes of a host, which write nothing more."""
        for process in self.on(host):
            process.vanish()


class TaskProcess:
    """Shim and task, which outlive their agent."""

    def __init__(self, processes: Processes, host: str, spec: TaskSpec, launch: Launch) -> None:
        self._processes, self.host, self._spec = processes, host, spec
        loop, random = asyncio.get_running_loop(), processes.random
        self.state = ShimState(
            boot="simulated",
            shim_pid=processes.next_pid(),
            shim_started=1,
            generation=launch.generation,
            attempt=launch.attempt,
            argv=tuple(shown_command(spec.command)),
            directory=spec.folder,
            restarted_for=launch.reason.restarted_for,
        )
        self.address = spec.address
        self.on_state: Callable[[ShimState], None] = lambda _: None
        self.on_end: Callable[[], None] = lambda: None
        task = launch.environment["TFSCALE_TASK"]
        self.stay = Stay(host, task, launch.generation, launch.attempt, loop.time())
        processes.stays.append(self.stay)
        processes.living[host, spec.lock] = self
        loop.call_later(random.uniform(*_START), self._begin)

    @property
    def is_alive(self) -> bool:
        return self.stay.ended is None

    def _begin(self) -> None:
        if self.is_alive:
            started = self._processes.clocks[self.host].unix_time()
            self._put(task_pid=self._processes.next_pid(), task_started=1, started=started)
            self.on_state(self.state)

    def ask(self, number: int) -> None:
        """Ask the task to end, or kill it."""
        self._put(requested=True)
        is_kill = number in (KILL_NOW, signal.SIGKILL)
        delay = 0.01 if is_kill else self._processes.random.uniform(*_END)
        asyncio.get_running_loop().call_later(delay, lambda: self.end(-signal.SIGTERM))

    def end(self, code: int) -> None:
        """End with this exit code, below 0 by a signal; the shim writes that down."""
        if not self.is_alive:
            return
        ended = self._processes.clocks[self.host].unix_time()
        self._put(code=max(code, 0) if code >= 0 else None, signal=-code if code < 0 else None, ended=ended)
        self.vanish()
        self.on_end()

    def vanish(self) -> None:
        """End without a word."""
        if self.is_alive:
            self.stay.ended = asyncio.get_running_loop().time()
            del self._processes.living[self.host, self._spec.lock]
            self._processes.break_gang(self.stay.generation)

    def _put(self, **changes: object) -> None:
        self.state = replace(self.state, **changes)  # type: ignore[arg-type]
        self._spec.state.write_text(with_checksum(asdict(self.state)))


class SimulatedSupervisor(Supervisor):
    """Supervisor whose shims are simulated."""

    processes: Processes

    def __init__(self, spec: TaskSpec, on_change: Callable[[TaskStatus], None]) -> None:
        super().__init__(spec, on_change)
        life = LIFE.get()
        assert life is not None
        self._life = life
        self._shim: TaskProcess | None = None

    async def start(self, launch: Launch) -> TaskStatus:
        """Start the task as the real one does. Raises SupervisionError where the shim or the address is taken."""
        assert not self.alive, "stop the task before it is started again"
        await asyncio.sleep(0.01)
        if (self._life.host, self._spec.lock) in self.processes.living:
            raise SupervisionError(f"another shim holds {self._spec.lock}: end the process that has it open")
        if any(each.address == self._spec.address for each in self.processes.on(self._life.host)):
            raise SupervisionError(f"a task at {self._spec.address} runs on this host already")
        self._state = None
        shim = TaskProcess(self.processes, self._life.host, self._spec, launch)
        self._begin(launch.generation, launch.attempt, launch.reason)
        shim.on_state = self._life_only(self._apply)
        self._follow(shim)
        return await self.started()

    async def _living_shim(self) -> ShimState | None:
        shim = self.processes.living.get((self._life.host, self._spec.lock))
        return None if shim is None else shim.state

    def _watch_process(self, _shim_pid: int) -> None:
        self._follow(self.processes.living[self._life.host, self._spec.lock])

    def _follow(self, shim: TaskProcess) -> None:
        self._shim, self._shim_pid, self._pidfd = shim, shim.state.shim_pid, shim.state.shim_pid
        shim.on_end = self._life_only(self._on_shim_end)

    def _life_only(self, function: Callable[..., None]) -> Callable[..., None]:
        """Return the function as this process of the agent calls it, as long as it lives."""

        def call(*args: object) -> None:
            if self._life.is_alive:
                self._life.run(function, *args)

        return call

    def _on_shim_end(self) -> None:
        self._shim = self._pidfd = None
        self._concluding = asyncio.create_task(self._conclude(""))

    def _signal_shim(self, number: int) -> None:
        if self._shim is not None:
            self._shim.ask(number)

    def look(self) -> None:
        """Do nothing: no shim is stopped."""
