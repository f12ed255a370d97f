"""Foresight of whether a program can be started, before a running program is stopped for it."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfscale.agent.supervision.shim import folder_now, why_not_started


def why_not_startable(
    command: Sequence[str], working_folder: Path, directory: str | None, environment: Mapping[str, str]
) -> str | None:
    """Return why the kernel would not start this program in this folder, None where it would."""
    try:
        folder = folder_now(str(working_folder), directory)
    except OSError as error:
        return why_not_started(error, list(command), directory)
    if folder is not None and not Path(folder).is_dir():
        return why_not_started(_error(errno.ENOENT, folder), list(command), folder)
    if os.sep in command[0]:
        place = Path(folder or "", command[0])
        number = errno.EACCES if place.exists() else errno.ENOENT
        found = place.is_file() and os.access(place, os.X_OK)
    else:
        number, found = errno.ENOENT, shutil.which(command[0], path=environment.get("PATH")) is not None
    return None if found else why_not_started(_error(number, command[0]), list(command), folder)


def _error(number: int, name: str) -> OSError:
    return OSError(number, os.strerror(number), name)
