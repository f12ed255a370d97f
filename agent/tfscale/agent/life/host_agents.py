"""Run of all agents of one process, from their locks to the exit status."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tfscale.agent.host.written_report import written_report
from tfscale.agent.life import placed_agent
from tfscale.agent.life.daemon import Daemon
from tfscale.agent.life.own_process import NotBegun, OwnProcess
from tfscale.agent.serving.agent_server import PortTaken
from tfscale.agent.settings import AgentSettings
from tfscale.agent.sole_agent import sole_agent
from tfscale.agent.supervision.shown_output import shown_output
from tfscale.agent.systemd.service_manager import ServiceManager
from tfscale.core.cluster.local.loopback_cluster import free_loopback
from tfscale.core.errors import TfscaleError
from tfscale.core.logs import SERVED

if TYPE_CHECKING:
    from tfscale.agent.metrics.agent_page import AgentPage

_logger = logging.getLogger(__name__)


def name_of(settings: AgentSettings) -> str:
    """Return the name of an agent in the log."""
    return placed_agent.spare_name(settings) if settings.is_spare else str(settings.task)


def serve(agents: Sequence[AgentSettings], on_locks: Callable[[], None] = lambda: None) -> int:
    """Run these agents until all have ended; return the exit status of the process, -n for a task that signal n ended.

    `on_locks` is called once this process has the locks of all tasks. No task starts before all of them could start
    theirs. Raises SoleAgentError where another agent owns a task, UsageError where `metrics` cannot be served.
    """
    with ExitStack() as held:
        # An agent of a seat has the lock of the task that it holds at the time.
        staying = [each for each in agents if each.seat is None]
        for each in staying:
            held.enter_context(sole_agent(each))
        page = held.enter_context(_page(agents))
        on_locks()
        return asyncio.run(_run(agents, page))


@contextmanager
def _page(agents: Sequence[AgentSettings]) -> Iterator[AgentPage | None]:
    """Serve the page of metrics until the block ends, where the user wants one. Raises UsageError."""
    if agents[0].metrics is None:
        yield None
        return
    # Imported for those alone who want it: it takes 2 MB.
    from tfscale.agent.metrics.agent_page import served_page

    with served_page(agents) as page:
        yield page


async def _run(agents: Sequence[AgentSettings], page: AgentPage | None) -> int:
    process = OwnProcess(len(agents), page=page)
    manager = ServiceManager.take(os.environ)
    telling = asyncio.create_task(manager.follow(process.begins, process.summary, process.is_asked_to_end))
    try:
        async with asyncio.TaskGroup() as group:
            for each in agents:
                with _served(each):
                    group.create_task(_live(each, process))
    finally:
        telling.cancel()
    return process.exit_status


async def _live(settings: AgentSettings, process: OwnProcess) -> None:
    """Run one agent. An error of one agent ends the others only before all have begun."""
    try:
        if settings.seat is not None:
            await placed_agent.run(settings, process)
        else:
            async with (
                written_report(settings, lambda: process.exit_status, process.is_asked_to_end),
                shown_output(settings, process.is_asked_to_end),
            ):
                await _serve(settings, process)
    except NotBegun as error:
        _logger.info("does not start: %s", error)
    except TfscaleError as error:
        _logger.error("%s", error)
        process.fail(error.exit_status)


async def _serve(settings: AgentSettings, process: OwnProcess) -> None:
    """Run one agent; where another one takes the port first that it has chosen, at another port."""
    while True:
        try:
            await Daemon(settings, process).run()
        except PortTaken:
            if not settings.chooses_port:
                raise
            other = free_loopback()
            alone = replace(settings.cluster, agents={settings.task: other})
            settings = replace(settings, listen=other, cluster=alone)
        else:
            return


@contextmanager
def _served(settings: AgentSettings) -> Iterator[None]:
    """Have log lines of everything begun in the block name this agent."""
    token = SERVED.set(name_of(settings))
    try:
        yield
    finally:
        SERVED.reset(token)
