"""Lives of agents' processes on simulated hosts: their tasks of the event loop, their clocks, and their sudden ends."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from consensus.virtual_loop import VirtualLoop

_MOST_ROUNDS = 100
"""Cancellations after which a task that goes on counts as a fault."""


NOON = 1.8e9
"""Unix time at which each simulation begins."""


@dataclass(frozen=True)
class Clock:
    """Clock of a host, which is `ahead` seconds of the others at the begin."""

    rate: float = 1.0
    """Its seconds in a true second: below 1 it is slow."""
    ahead: float = 0.0

    def unix_time(self) -> float:
        """Return what it shows now."""
        return NOON + self.ahead + self.rate * asyncio.get_running_loop().time()


class Life:
    """Process of an agent on a host, from its start to its end."""

    def __init__(self, host: str, clock: Clock) -> None:
        self.host, self.clock = host, clock
        self.is_alive = True
        self._tasks: dict[asyncio.Future[Any], None] = {}
        self._context = contextvars.copy_context()
        self._context.run(LIFE.set, self)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Have a coroutine go on in this process."""
        return asyncio.get_running_loop().create_task(work, context=self._context.copy())

    def run(self, function: Callable[..., object], *args: object) -> None:
        """Call a function in this process, as its event loop does."""
        self._context.copy().run(function, *args)

    def hold(self, task: asyncio.Future[Any]) -> None:
        """Count a task as this process's until it is done."""
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def kill(self) -> None:
        """End the process at once: what it does in its last moments reaches neither disk nor network."""
        self.is_alive = False
        for _ in range(_MOST_ROUNDS):
            for task in tuple(self._tasks):
                task.cancel()
            if not self._tasks:
                return
            await asyncio.sleep(0)
        raise AssertionError(f"does not end when it is cancelled: {[*self._tasks]}")


LIFE: contextvars.ContextVar[Life | None] = contextvars.ContextVar("life", default=None)
"""Process of which the code that runs is a part."""


TRUE = contextvars.Context()
"""Context of what belongs to no process: its timers go by the true time."""


class HostsLoop(VirtualLoop):
    """Virtual event loop of several hosts: each process has timers by its own clock, and tasks that end with it."""

    def __init__(self) -> None:
        super().__init__()
        self.set_task_factory(_held)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        if (life := LIFE.get()) is not None:
            now = self.time()
            when = now + max(0.0, when - now) / life.clock.rate
        return super().call_at(when, callback, *args, context=context)

    def run_in_executor(self, _executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """Call the function at once: a thread would not know the virtual time."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


def _held(
    loop: asyncio.AbstractEventLoop, work: Any, *, context: contextvars.Context | None = None
) -> asyncio.Task[Any]:
    task = asyncio.Task(work, loop=loop, context=context)
    life = LIFE.get() if context is None else context.get(LIFE)
    if life is not None:
        life.hold(task)
        if not life.is_alive:
            task.cancel()
    return task
