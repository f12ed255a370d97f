"""Commands to one task by a word on the command line, without a screen: results on stdout, progress in the log."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence

from tfscale.console.analysis.stragglers.straggler_words import names_of
from tfscale.console.engine.events import CommandProgressed
from tfscale.console.engine.timeline.event_text import progress_text
from tfscale.console.settings.config import Settings
from tfscale.console.sources.source_factory import ClusterConnection
from tfscale.core.access.orders import Order, Subject
from tfscale.core.cluster.task import Task
from tfscale.core.errors import UsageError
from tfscale.core.records.task_status import Stage
from tfscale.core.settings.suggestion import suggestion

_logger = logging.getLogger(__name__)


async def carry_out(order: Order, words: Sequence[str], connection: ClusterConnection) -> int:
    """Have an order without a call of its own carried out, and return the exit status.

    `words` are the arguments of the command line. Raises UsageError and CommandError.
    """
    task = known_task(words[0], connection) if order.subject is Subject.TASK else None
    await locate(connection)
    _log(task, await connection.commands.carry_out(order, task, words[-1]))
    return 0


async def restart_without(host: str, settings: Settings, connection: ClusterConnection) -> int:
    """Restart the gang with the tasks of one host on others, and return the exit status.

    Raises UsageError and CommandError.
    """
    if not settings.yes:
        raise UsageError(f"a restart without {host} concerns all tasks that train: add --yes")
    await locate(connection)
    return await _follow(connection.commands.restart_without(host), None)


def known_task(word: str, connection: ClusterConnection) -> Task:
    """Return the task that a word names. Raises UsageError where the cluster has no such task."""
    names = {str(task): task for task in connection.source.spec.agents}
    try:
        task = Task.parse(word)
    except UsageError as error:
        raise UsageError(f"{error}{suggestion(word, names, f'the cluster has {names_of([*names])}')}") from None
    if str(task) not in names:
        raise UsageError(f"there is no {task} in the cluster: it has {names_of([*names])}")
    return task


async def locate(connection: ClusterConnection) -> None:
    """Find out where the tasks sit now, where that is not the cluster file's placement."""
    if connection.channels is not None:
        await connection.channels.locate()


async def run_task_command(name: str, word: str, settings: Settings, connection: ClusterConnection) -> int:
    """Carry out the command for the task that a word names, and return the exit status.

    Raises UsageError and CommandError.
    """
    task = known_task(word, connection)
    await locate(connection)
    if name == "stack":
        print((await connection.commands.stack(task)).text)
        return 0
    if not settings.yes:
        raise UsageError(
            f"{name} {task} also concerns the tasks that train with it: add --yes, or use the screen, which names them"
        )
    return await _follow(connection.commands.order(name, [task]), task)


async def _follow(steps: AsyncIterator[CommandProgressed], task: Task | None) -> int:
    stage = None
    async for progress in steps:
        stage = progress.stage
        _log(task, f"{', '.join(map(str, progress.tasks)) or 'cluster'}: {progress_text(progress)}")
    return 0 if stage is Stage.DONE else 1


def _log(task: Task | None, text: str) -> None:
    _logger.info("%s", text, extra={} if task is None else {"task": str(task)})
