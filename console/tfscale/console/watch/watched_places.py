"""Places in which a watch looks for clusters: a file, a folder of files, an agent, Slurm's jobs, or this machine."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tfscale.console.settings.config import Settings
from tfscale.console.sources.cluster_finder import (
    ask_named_agent,
    cluster_of,
    is_named,
    local_runs,
    named_agent,
    own_tls,
)
from tfscale.console.sources.slurm_job import job_clusters
from tfscale.console.sources.source_factory import connect_simulated
from tfscale.core.cluster.cluster_spec import ALONE_NAME, Address, ClusterSpec
from tfscale.core.cluster.file.cluster_file import load_cluster
from tfscale.core.cluster.file.environment_cluster import cluster_from_environment, names_cluster
from tfscale.core.cluster.file.find_cluster import cluster_file
from tfscale.core.cluster.local.local_agents import LocalAgent
from tfscale.core.errors import TfscaleError
from tfscale.core.settings.precedence import outranks
from tfscale.core.settings.user_folders import user_state_folder
from tfscale.core.text import plural

_logger = logging.getLogger(__name__)
_SUFFIXES = (".toml", ".json")
_SLURM = 30.0
"""Seconds between two questions to Slurm's controller, which serves everybody."""
_SLURM_SOON = 8.0
"""Seconds in which it is asked at each look, after a run has made its folder: its cluster file is there soon."""
Load = Callable[[], Awaitable["Place"]]
Key = tuple[str, ...]
"""Name of a place and of what was found there: another file, agent or address is another key."""


@dataclass(frozen=True, slots=True)
class Place:
    """Place where a cluster was found."""

    spec: ClusterSpec
    entry: Address | None = None
    """Agent that led to it, if one was named."""
    is_simulated: bool = False

    @property
    def identity(self) -> tuple[str, str]:
        """Name and fingerprint of the cluster."""
        return self.spec.name, self.spec.fingerprint


class WatchedPlaces:
    """Places by the settings. What cannot be read is told once, and looked for again."""

    def __init__(self, settings: Settings, origins: Mapping[str, str], environment: Mapping[str, str]) -> None:
        """Choose the kind of places. Raises UsageError for a file or a folder that is not there."""
        self._settings, self._environment = settings, environment
        self._workers = settings.simulate if outranks(origins, "simulate", "cluster", "agent") else None
        self._entry = named_agent(settings, origins)
        self._slurm = settings.slurm if outranks(origins, "slurm", "agent", "cluster") else None
        self._file = self._named_file()
        self._known: dict[Key, Place] = {}
        self._problems: dict[Key, str] = {}
        self._jobs: list[Path] = []
        self._jobs_due = 0.0
        self._state_changed = (0, -_SLURM_SOON)
        """Change of the folder of all runs that was seen last, and when that was."""

    def _named_file(self) -> Path | None:
        """Return the cluster file or the folder to watch. Raises UsageError."""
        if self._workers is not None or self._slurm is not None or self._entry is not None:
            return None
        path = self._settings.cluster
        if path is None:
            return cluster_file(self._environment) if is_named(self._settings, self._environment) else None
        if not path.is_dir():
            load_cluster(path)  # it is there, and can be read
        return path

    @property
    def own_spec(self) -> ClusterSpec:
        """Cluster whose file has the certificates of this watch, if any: that of the only file, or of the settings."""
        if self._file is not None and self._file.is_file():
            return load_cluster(self._file)
        return ClusterSpec("watch", {}, {}, tls=own_tls(self._settings))

    @property
    def words(self) -> str:
        """Words for the places."""
        if self._workers is not None:
            return f"a simulation of {plural(self._workers, 'worker')}"
        if self._slurm is not None:
            return f"job {self._slurm} of Slurm" if self._slurm else "your jobs of Slurm"
        if self._entry is not None:
            return f"the cluster of the agent at {self._entry}"
        if self._file is not None:
            return f"the cluster files in {self._file}" if self._file.is_dir() else f"the cluster of {self._file}"
        return "TF_CONFIG" if names_cluster(self._environment) else "the agents of this machine"

    async def find(self) -> Mapping[Key, Place]:
        """Return the clusters that are there now."""
        found: dict[Key, Place] = {}
        try:
            candidates = await self._candidates()
        except OSError as error:
            self._tell(
                (), f"{error.filename}: cannot be read: {error.strerror}; goes on with the clusters found so far"
            )
            return self._known
        self._problems.pop((), None)
        for key, load in candidates:
            try:
                place = self._known.get(key) or await load()
            except TfscaleError as error:
                self._tell(key, str(error))
                continue
            self._problems.pop(key, None)
            if any(each.identity == place.identity for each in found.values()):
                self._tell(key, f"{place.spec.name} is watched already: {key[1]} names the same cluster")
                continue
            found[key] = place
        self._known = found
        return found

    async def _candidates(self) -> list[tuple[Key, Load]]:
        """List what may be a cluster, each with a function that reads or asks for it. Never raises TfscaleError.

        Raises OSError where a folder cannot be read for now.
        """
        if self._workers is not None:
            spec = connect_simulated(self._settings, self._workers).source.spec

            async def simulate() -> Place:
                return Place(spec, is_simulated=True)

            return [(("simulation",), simulate)]
        if self._slurm is not None:
            return [_of_file(path) for path in await self._job_files(self._slurm)]
        if self._entry is not None:
            entry = self._entry

            async def ask() -> Place:
                return Place(await ask_named_agent(entry, self._settings), entry)

            return [(("agent", str(entry)), ask)]
        if self._file is not None:
            return [_of_file(path) for path in _files(self._file)]
        if names_cluster(self._environment):

            async def read() -> Place:
                return Place(cluster_from_environment(self._environment)[0])

            return [(("TF_CONFIG",), read)]
        return [self._of_agent(agent) for agent in local_runs(self._environment)]

    def _of_agent(self, agent: LocalAgent) -> tuple[Key, Load]:
        async def ask() -> Place:
            return Place(await cluster_of(agent, self._settings))

        # Agents of a cluster may end one by one; that of a program alone is its run.
        whose = (str(agent.pid), str(agent.started)) if agent.fingerprint == ALONE_NAME else ()
        return ("local", f"{agent.run} of this machine", agent.fingerprint, *whose), ask

    async def _job_files(self, named: str) -> list[Path]:
        """Return the cluster files of Slurm's jobs, as of half a minute ago at most."""
        folder, now = user_state_folder(self._environment), time.monotonic()
        changed = folder.stat().st_mtime_ns if folder.is_dir() else 0
        if changed != self._state_changed[0]:
            self._state_changed = changed, now
        if now >= self._jobs_due or now - self._state_changed[1] < _SLURM_SOON:
            self._jobs_due = now + _SLURM
            try:
                self._jobs = await asyncio.to_thread(job_clusters, named, folder)
                self._problems.pop(("slurm",), None)
            except TfscaleError as error:
                self._jobs = []
                self._tell(("slurm",), str(error))
        return self._jobs

    def _tell(self, key: Key, problem: str) -> None:
        if self._problems.get(key) != problem:
            self._problems[key] = problem
            _logger.warning("%s", problem)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.iterdir() if each.suffix in _SUFFIXES and each.is_file())


def _of_file(path: Path) -> tuple[Key, Load]:
    async def read() -> Place:
        return Place(load_cluster(path))

    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        digest = ""
    return ("file", str(path), digest), read
