"""One command to several tasks under way, and the progress that its callers receive."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tfscale.agent.cluster.journal import Intent
from tfscale.core.cluster.task import Task
from tfscale.core.records.task_status import Stage

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OperationProgress:
    """One step of a command, at `at` (Unix seconds)."""

    stage: Stage
    tasks: tuple[Task, ...]
    generation: int
    message: str = ""
    at: float = 0.0


class Operation:
    """One command under way. It goes on whether or not anybody iterates over its progress."""

    def __init__(
        self,
        intent: Intent,
        tasks: tuple[Task, ...],
        silent: Mapping[Task, str] = MappingProxyType({}),
        *,
        is_resumed: bool = False,
    ) -> None:
        self.intent = intent
        self.tasks = tasks
        self.silent = silent
        """Tasks of a stop whose agents did not answer before it, with the words for it."""
        self.is_resumed = is_resumed
        """True for a command that an earlier agent of the task had begun."""
        self.complaint = ""
        """Words about the agent that does not answer; empty while all do."""
        self._missing: dict[Task, float] = {}
        """Time on the loop's clock since which the agent of a task does not answer, the first one first."""
        self.driver: asyncio.Task[None] | None = None
        self.is_settled = False
        """True once nothing is left to do but to write that down."""
        self.carried_out = asyncio.Event()
        """Event that it is written down, or has failed: a newer command may come."""
        self._history: list[OperationProgress] = []
        self._changed = asyncio.Event()
        self._is_over = False

    @property
    def overdue(self) -> bool:
        """True if an agent does not answer, so that a newer command may supersede this one."""
        return bool(self.complaint)

    def report(self, stage: Stage, tasks: Iterable[Task], message: str = "", *, is_logged: bool = False) -> None:
        """Add a stage of the command and log it; a failure that the log has already (`is_logged`) is no warning."""
        self._history.append(OperationProgress(stage, tuple(tasks), self.intent.generation, message, time.time()))
        self._log(self._history[-1], is_logged)
        self._wake()

    def unreachable(self, task: Task, why: str) -> None:
        """Report that a task's agent does not answer, and end the callers' streams; the command itself goes on."""
        self.complaint = f"{why}; the {self.intent.verb} goes on by itself when it answers"
        self._missing.setdefault(task, asyncio.get_running_loop().time())
        self.report(Stage.FAILED, [task], self.complaint)
        self.finish()

    def answered(self, task: Task) -> None:
        """Take in that a task's agent has done what it was asked for."""
        self._missing.pop(task, None)

    def first_missing(self) -> tuple[Task, float] | None:
        """Return the task whose agent has not answered for longest, with the seconds; None where all do."""
        now = asyncio.get_running_loop().time()
        return next(((task, now - since) for task, since in self._missing.items()), None)

    def finish(self) -> None:
        """End the callers' streams."""
        self._is_over = True
        self._wake()

    async def progress(self) -> AsyncIterator[OperationProgress]:
        """Yield the whole progress from the start, until the command is over or an agent does not answer."""
        seen = 0
        while True:
            while seen < len(self._history):
                seen += 1
                yield self._history[seen - 1]
            if self._is_over:
                return
            await self._changed.wait()

    def _log(self, progress: OperationProgress, is_logged: bool) -> None:
        level = logging.WARNING if progress.stage is Stage.FAILED and not is_logged else logging.INFO
        tasks = ", ".join(map(str, progress.tasks))
        text = f"{self.intent.verb} to generation {progress.generation}: {progress.stage} {tasks}"
        _logger.log(level, "%s", f"{text}: {progress.message}" if progress.message else text)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
