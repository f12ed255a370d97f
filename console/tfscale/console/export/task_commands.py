"""Commands for one task from the command line, without a screen: results on stdout, progress on stderr."""

from __future__ import annotations

import sys

from tfscale.console.commands import PROFILE_SECONDS, VERBS, Commands
from tfscale.console.config import Settings
from tfscale.console.connect import Connection
from tfscale.console.describe import describe_progress
from tfscale.console.engine.events import Stage
from tfscale.core.errors import UsageError
from tfscale.core.task import Task

TASK_COMMANDS = ("stack", "profile", *VERBS)


async def run_task_command(name: str, task: Task, settings: Settings, connection: Connection) -> int:
    """Carry out the command, and return the exit status. Raises UsageError and CommandError."""
    agents = connection.source.spec.agents
    if task not in agents:
        raise UsageError(f"there is no {task} in the cluster: it has {', '.join(map(str, agents))}")
    if name == "stack":
        print((await connection.commands.stack(task)).text)
        return 0
    if name == "profile":
        seconds = PROFILE_SECONDS if settings.seconds is None else settings.seconds
        return await _profile(task, seconds, connection.commands)
    if not settings.yes:
        raise UsageError(
            f"{name} {task} takes along whoever trains with it: add --yes, or use the screen, which names them"
        )
    return await _order(name, task, connection.commands)


async def _profile(task: Task, seconds: float, commands: Commands) -> int:
    async for moment in commands.profile(task, seconds):
        _say(f"{task}: {moment.doing}")
        if moment.file:
            print(moment.file, flush=True)
            _say(f"{moment.bytes / 1e6:.1f} MB; on its host: tensorboard --logdir {moment.folder}")
            return 0
    _say(f"{task}: its agent ended without a profile")
    return 1


async def _order(verb: str, task: Task, commands: Commands) -> int:
    stage = None
    async for progress in commands.order(verb, [task]):
        stage = progress.stage
        _say(f"{', '.join(map(str, progress.tasks)) or 'cluster'}: {describe_progress(progress)}")
    return 0 if stage is Stage.DONE else 1


def _say(text: str) -> None:
    print(f"tfscale-console: {text}", file=sys.stderr, flush=True)
