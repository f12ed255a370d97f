"""Description of an agent by itself: to consoles that connect, and to the programs of this host."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import replace

from tfscale.agent.life.agent_parts import AgentParts
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision.shim_process import shown_command
from tfscale.core.cluster.local.local_agents import LocalAgent
from tfscale.core.records.frame import Description
from tfscale.core.records.task_status import TaskState
from tfscale.core.text import clock, exit_clause, progress_words, step_rate
from tfscale.core.version import installed_version


def description(parts: AgentParts) -> Description:
    """Return the agent's description for consoles."""
    settings, recovery = parts.settings, parts.settings.cluster.recovery
    return Description(
        version=installed_version() or "",
        run=settings.run,
        task=str(settings.task),
        lead=str(settings.cluster.lead),
        host=socket.gethostname(),
        cluster=settings.cluster.to_json(),
        command=parts.supervisor.command,
        files=parts.files,
        log_path=str(settings.files.log),
        generation=parts.journal.entry.generation,
        started=parts.started,
        pid=os.getpid(),
        directory=str(settings.working_folder / (settings.cluster.program.directory or "")),
        fingerprint=settings.identity.fingerprint,
        placement="" if parts.seat is None else parts.seat.placement.to_json(),
        on_straggler="" if recovery is None else recovery.on_straggler,
    )


def summary(parts: AgentParts) -> str:
    """Return what the task does, in words for a service manager.

    `worker:0 runs since 12:03:11, 12.3 steps/s, epoch 3 of 10, step 120 of 500, 24% done, 5 m 00 s left: done at about
    12:40`. The words for others, such as `waits for worker:1`, are a console's: one agent does not know.
    """
    status = parts.supervisor.status
    match status.state:
        case TaskState.RUNNING:
            since = "" if status.started is None else f" since {clock(status.started)}"
            words = ", ".join([f"runs{since}", *_steps(parts)])
        case TaskState.EXITED:
            words = exit_clause(status.exit)
        case state:
            words = f"is {state}"
    return f"{parts.settings.task} {words}"


def _steps(parts: AgentParts) -> Iterator[str]:
    """Yield how fast the task trains and how far it is, or since when it has stood still, and where."""
    now, training, silent = time.time(), parts.reports.training, parts.pace.silent
    if (rate := parts.pace.rate) is not None:
        yield step_rate(rate)
    if training is not None:
        known = training if silent is None else replace(training, time_left=None)
        if words := progress_words(known, now):
            yield words
    if silent is not None:
        collective = parts.reports.collective
        waits = collective is not None and collective.entered > collective.left and not collective.between_steps
        where = parts.standstill.place or ("it waits in an all-reduce" if waits else "")
        yield f"no step since {clock(now - silent)}" + (f": {where}" if where else "")


def local_agent(settings: AgentSettings, task: str, started: float, token: str) -> LocalAgent:
    """Return the announcement of an agent to the programs of this host; `task` is `spare` where it holds no task."""
    file = settings.cluster_file
    return LocalAgent(
        run=settings.run,
        task=task,
        address=str(settings.listen),
        pid=os.getpid(),
        started=started,
        directory=str(settings.working_folder),
        command=tuple(shown_command(settings.command)),
        cluster=None if file is None else str(file),
        insecure=settings.insecure,
        fingerprint=settings.identity.fingerprint,
        token=token,
    )
