"""Trial of a task's start before anything is stopped for it: its folder, its program, and the shim that starts it."""

from __future__ import annotations

import os

from tfscale.agent.file_thread import DiskHangs, FileThread
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision.shim_process import why_no_shim
from tfscale.agent.supervision.startable import why_not_startable


class StartTrial:
    """Trials of one agent."""

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings
        self._files = FileThread()

    async def why_not(self) -> str | None:
        """Return why the task could not be started now, None where it could: a shim was started, and has ended."""
        try:
            return await self._files.call(self._tried)
        except DiskHangs as error:
            return f"cannot be started: {self._settings.command[0]!r}: {error}"

    def _tried(self) -> str | None:
        settings, program = self._settings, self._settings.cluster.program
        environment = {**os.environ, **program.environment}
        why = why_not_startable(settings.command, settings.working_folder, program.directory, environment)
        return why or why_no_shim(environment)
