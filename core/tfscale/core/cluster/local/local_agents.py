"""Announcements of the agents that run on this machine, by which a console finds them without being told of a cluster.

Each agent keeps a file locked for as long as it serves. So the file of an agent that was killed names nobody.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from tfscale.core.cluster.local.private_folder import is_private
from tfscale.core.cluster.local.runtime_folder import made_runtime_folders, runtime_folders

_logger = logging.getLogger(__name__)
_FOLDER = "agents"
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class LocalAgent:
    """One agent of this machine."""

    run: str
    task: str
    address: str
    """Host and port at which it serves."""
    pid: int
    started: float
    """Unix seconds."""
    directory: str
    """Folder in which it was started."""
    command: tuple[str, ...]
    """Program of its task."""
    cluster: str | None = None
    """Path of its cluster file, None where it has none."""
    insecure: bool = False
    """True if it serves in plain text whatever its cluster file says."""


@contextlib.contextmanager
def announced(agent: LocalAgent, environment: Mapping[str, str]) -> Iterator[None]:
    """Announce this agent for as long as the block lasts; without a private folder with room nobody is told of it."""
    with contextlib.ExitStack() as stack:
        for folder in made_runtime_folders(environment):
            with contextlib.suppress(OSError):
                stack.enter_context(_announcement(folder / _FOLDER, agent))
                break
        else:
            _logger.warning("consoles do not find this agent by themselves: no folder takes its announcement")
        yield


def local_agents(environment: Mapping[str, str]) -> list[LocalAgent]:
    """List the agents of this user that serve on this machine now, by run and task."""
    found: dict[int, LocalAgent] = {}
    for folder in filter(is_private, runtime_folders(environment)):
        for path in (folder / _FOLDER).glob(f"*{_SUFFIX}"):
            if (agent := _read(path)) is not None:
                found[agent.pid] = agent
    return sorted(found.values(), key=lambda agent: (agent.run, agent.task))


@contextlib.contextmanager
def _announcement(folder: Path, agent: LocalAgent) -> Iterator[None]:
    """Keep a locked file that names the agent. Raises OSError."""
    folder.mkdir(mode=0o700, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=folder)
    path = Path(draft + _SUFFIX)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            json.dump(asdict(agent), file)
            file.flush()
            # It has its name only now: without its lock it would be taken for that of an agent that was killed.
            Path(draft).rename(path)
            yield
    finally:
        for name in (path, Path(draft)):
            with contextlib.suppress(OSError):
                name.unlink()


def _read(path: Path) -> LocalAgent | None:
    try:
        with path.open(encoding="utf-8") as file:
            if _is_free(file):
                path.unlink(missing_ok=True)
                return None
            fields = json.load(file)
        return LocalAgent(**{**fields, "command": tuple(fields["command"])})
    except (OSError, ValueError, TypeError, KeyError):
        # It has just ended, or has not written yet, or is of another version.
        return None


def _is_free(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
