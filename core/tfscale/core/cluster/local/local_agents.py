"""Announcements of this machine's agents: a console finds the agents by them, without a cluster file.

Each agent keeps a file locked for as long as it serves. So the file of an agent that was killed names nobody.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TextIO

from tfscale.core.cluster.local.file_lock import is_locked, lock
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
    """Host and port of the agent's server."""
    pid: int
    started: float
    """Unix seconds."""
    directory: str
    """Folder in which the agent was started."""
    command: tuple[str, ...]
    """Program of its task."""
    cluster: str | None = None
    """Path of the agent's cluster file; None without a file."""
    insecure: bool = False
    """True if the agent serves in plain text, whatever its cluster file says."""
    fingerprint: str = ""
    """Fingerprint of its cluster."""
    token: str = field(default="", repr=False)
    """Secret with which a call on loopback may give the agent orders; empty if the agent asks for none."""

    @property
    def run_key(self) -> tuple[str, str]:
        """Key of the agent's run: two clusters whose files have one name are two runs."""
        return self.run, self.fingerprint


class Announcement:
    """File that names an agent, locked for as long as the agent serves."""

    def __init__(self, agent: LocalAgent, environment: Mapping[str, str]) -> None:
        self._agent, self._environment = agent, environment
        self._path: Path | None = None
        self._file: TextIO | None = None
        self._is_missed = False
        """True after a warning that no folder takes the announcement."""

    def keep(self) -> None:
        """Write the file, again if it was removed: the last logout of a session removes its folder."""
        if self._path is not None and self._path.exists():
            return
        self.end()
        for folder in made_runtime_folders(self._environment):
            with contextlib.suppress(OSError):
                self._write(folder / _FOLDER)
                return
        if not self._is_missed:
            self._is_missed = True
            _logger.warning("consoles do not find this agent by themselves: no folder takes its announcement")

    def end(self) -> None:
        """Remove the file."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
        if self._file is not None:
            self._file.close()
        self._path = self._file = None

    def _write(self, folder: Path) -> None:
        """Write the file in this folder. Raises OSError."""
        folder.mkdir(mode=0o700, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(prefix=_prefix(self._agent.address.rpartition(":")[2]), dir=folder)
        file = os.fdopen(descriptor, "w", encoding="utf-8")
        try:
            lock(file)
            json.dump(asdict(self._agent), file)
            file.flush()
            # It has its name only now: without its lock it would be taken for that of an agent that was killed.
            self._path = Path(draft).rename(draft + _SUFFIX)
        except OSError:
            with contextlib.suppress(OSError):
                file.close()
            Path(draft).unlink(missing_ok=True)
            raise
        self._file = file


@contextlib.contextmanager
def announced(agent: LocalAgent, environment: Mapping[str, str]) -> Iterator[Announcement]:
    """Announce this agent for as long as the block lasts; without a private folder with room it is not announced."""
    announcement = Announcement(agent, environment)
    announcement.keep()
    try:
        yield announcement
    finally:
        announcement.end()


def announcements_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder for announcements of this user's new agents."""
    return next(iter([*made_runtime_folders(environment), *runtime_folders(environment)])) / _FOLDER


def local_agents(environment: Mapping[str, str], port: int | None = None) -> list[LocalAgent]:
    """List the agents of this user that serve on this machine now, at any port or at one, by run and task."""
    found: dict[tuple[int, str], LocalAgent] = {}
    for folder in filter(is_private, runtime_folders(environment)):
        for path in (folder / _FOLDER).glob(f"{_prefix(port)}*{_SUFFIX}"):
            if (agent := _read(path)) is not None:
                found[agent.pid, agent.address] = agent
    return sorted(found.values(), key=lambda agent: (agent.run, agent.task))


def _prefix(port: int | str | None) -> str:
    """Return the begin of a file's name, which contains the port: a caller looks for an agent's token by its port."""
    return "" if port is None else f"{port}-"


def _read(path: Path) -> LocalAgent | None:
    try:
        with path.open(encoding="utf-8") as file:
            if not is_locked(file):
                path.unlink(missing_ok=True)
                return None
            given = json.load(file)
        known = {each.name: given[each.name] for each in fields(LocalAgent) if each.name in given}
        return LocalAgent(**{**known, "command": tuple(known["command"])})
    except (OSError, ValueError, TypeError, KeyError):
        # It has just ended, or has not written yet, or is of a version that had other fields.
        return None
