"""Run of all agents of one process, from their locks to the exit status."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from tfscale.agent.life import placed_agent
from tfscale.agent.life.daemon import Daemon
from tfscale.agent.life.own_process import NotBegun, OwnProcess
from tfscale.agent.settings import AgentSettings
from tfscale.agent.sole_agent import sole_agent
from tfscale.agent.supervision.shown_output import shown_output
from tfscale.core.errors import TfscaleError
from tfscale.core.logs import SERVED

_logger = logging.getLogger(__name__)


def name_of(settings: AgentSettings) -> str:
    """Return the name of an agent in the log."""
    return placed_agent.spare_name(settings) if settings.is_spare else str(settings.task)


def serve(agents: Sequence[AgentSettings], on_locks: Callable[[], None] = lambda: None) -> int:
    """Run these agents until all have ended; return the exit status of the process, -n for a task that signal n ended.

    `on_locks` is called once this process has the locks of all tasks. No task starts before all of them could start
    theirs. Raises SoleAgentError where another agent owns a task.
    """
    with ExitStack() as held:
        # An agent of a seat has the lock of the task that it holds at the time.
        staying = [each for each in agents if each.seat is None]
        for each in staying:
            held.enter_context(sole_agent(each))
        on_locks()
        return asyncio.run(_run(agents))


async def _run(agents: Sequence[AgentSettings]) -> int:
    process = OwnProcess(len(agents))
    async with asyncio.TaskGroup() as group:
        for each in agents:
            with _served(each):
                group.create_task(_live(each, process))
    return process.exit_status


async def _live(settings: AgentSettings, process: OwnProcess) -> None:
    """Run one agent. An error of one agent ends the others only before all have begun."""
    try:
        if settings.seat is not None:
            await placed_agent.run(settings, process)
        else:
            async with shown_output(settings, process.is_asked_to_end):
                await Daemon(settings, process).run()
    except NotBegun as error:
        _logger.info("does not start: %s", error)
    except TfscaleError as error:
        _logger.error("%s", error)
        process.fail(error.exit_status)


@contextmanager
def _served(settings: AgentSettings) -> Iterator[None]:
    """Have log lines of everything begun in the block name this agent."""
    token = SERVED.set(name_of(settings))
    try:
        yield
    finally:
        SERVED.reset(token)
