"""Description of an agent by itself: to consoles that connect, and to the programs of this host."""

from __future__ import annotations

import os
import socket

from tfscale.agent.life.agent_parts import AgentParts
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision.shim_process import shown_command
from tfscale.core.cluster.local.local_agents import LocalAgent
from tfscale.core.records.frame import Description
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
        log_path=str(settings.files.log),
        generation=parts.journal.entry.generation,
        started=parts.started,
        pid=os.getpid(),
        directory=str(settings.working_folder / (settings.cluster.program.directory or "")),
        fingerprint=settings.identity.fingerprint,
        placement="" if parts.seat is None else parts.seat.placement.to_json(),
        on_straggler="" if recovery is None else recovery.on_straggler,
    )


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
