"""Profiles of tasks that are fetched to this machine, into a folder that TensorBoard opens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

from tfscale.console.engine.events import Profile
from tfscale.console.transport.channels import CommandError
from tfscale.console.transport.commands import Commands
from tfscale.console.wire.profile_file import profile_name
from tfscale.core.cluster.task import Task
from tfscale.core.files.whole_file import whole_file


def profile_folder(below: Path) -> Path:
    """Make the folder in which TensorBoard looks for the profiles of one time. Raises OSError."""
    folder = below / "plugins" / "profile" / datetime.now().strftime("%Y_%m_%d_%H_%M_%S")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


async def fetch_profile(task: Task, seconds: float, commands: Commands, folder: Path) -> AsyncIterator[Profile]:
    """Take a task's profile, and yield the progress; the last has the file here, which is whole or not there.

    Raises CommandError.
    """
    path = folder / profile_name(str(task))
    size = left = 0
    try:
        with whole_file(path) as file:
            async for progress in commands.profile(task, seconds, fetch=True):
                if progress.content:
                    left -= file.write(progress.content)
                elif progress.file:
                    size = left = progress.bytes
                else:
                    yield progress
            if not size:
                raise CommandError("its agent ended without a profile")
            if left:
                raise CommandError(f"{size - left} of {size} bytes came; an agent of an older version sends none")
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    yield Profile("fetched", str(folder.parents[2]), str(path), size)
