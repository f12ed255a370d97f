"""Command that takes TensorFlow's profiles of tasks at once, and fetches them to this machine if that is asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from tfscale.console.engine.checkpoint_age import RISK, age_of_trainings, profile_refusal
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.state_factory import states
from tfscale.console.export.snapshot_once import SnapshotOnce
from tfscale.console.export.task_commands import known_task, locate
from tfscale.console.settings.config import Settings
from tfscale.console.sources.source_factory import ClusterConnection
from tfscale.console.transport.channels import CommandError
from tfscale.console.transport.commands import PROFILE_SECONDS, Commands
from tfscale.console.transport.fetched_profile import fetch_profile, profile_folder
from tfscale.core.cluster.task import Task
from tfscale.core.errors import UsageError
from tfscale.core.settings.exit_status import ExitStatus
from tfscale.core.text import listing

_logger = logging.getLogger(__name__)


async def take_profiles(words: Sequence[str], settings: Settings, connection: ClusterConnection) -> int:
    """Profile the tasks that words name, all at once; return the exit status. Raises UsageError and CommandError."""
    if not words:
        raise UsageError("profile which tasks? Name one or several, such as worker:0 worker:1")
    tasks = [known_task(word, connection) for word in dict.fromkeys(words)]
    if not settings.yes:
        raise UsageError(f"{RISK}, which go back to their last checkpoint: add --yes")
    await locate(connection)
    await _refuse_beside_an_old_checkpoint(tasks, connection)
    seconds = PROFILE_SECONDS if settings.seconds is None else settings.seconds
    try:
        folder = None if settings.out is None else profile_folder(settings.out)
    except OSError as error:
        raise UsageError(f"--out {settings.out}: {error.strerror}") from None
    taken = await asyncio.gather(*(_profile(task, seconds, connection.commands, folder) for task in tasks))
    if folder is not None and any(taken):
        _logger.info("tensorboard --logdir %s", settings.out)
    return ExitStatus.WELL if all(taken) else ExitStatus.NOTHING


async def _refuse_beside_an_old_checkpoint(tasks: Sequence[Task], connection: ClusterConnection) -> None:
    """Raise CommandError where a profile may cost more than some minutes of training."""
    spec = connection.source.spec
    snapshot = await SnapshotOnce(Engine(connection.source, states(spec))).run()
    why = profile_refusal(None if snapshot is None else age_of_trainings(snapshot, spec, tasks))
    if why is not None:
        raise CommandError(f"no profile of {listing([*map(str, tasks)])}: {why}")


async def _profile(task: Task, seconds: float, commands: Commands, folder: Path | None) -> bool:
    """Take one profile, and tell each stage; return False where it failed, so that the others go on."""
    is_here = folder is not None
    taken = commands.profile(task, seconds) if folder is None else fetch_profile(task, seconds, commands, folder)
    try:
        async for progress in taken:
            _tell(task, progress.doing)
            if progress.file:
                print(progress.file, flush=True)
                size = f"{progress.bytes / 1e6:.1f} MB"
                _tell(task, size if is_here else f"{size}; on its host: tensorboard --logdir {progress.folder}")
                return True
        raise CommandError("its agent ended without a profile")
    except CommandError as error:
        _logger.error("%s", error, extra={"task": str(task)})
        return False


def _tell(task: Task, text: str) -> None:
    _logger.info("%s", text, extra={"task": str(task)})
