"""Folder of all watched runs, a folder a run, which one watch at a time writes."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from tfscale.console.recording.recording_folder import recordings_in
from tfscale.console.recording.recording_writer import ActiveRecording
from tfscale.console.watch.run_folder import REPORTS, Limits, RunFacts, RunFolder, read_facts
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.local.file_lock import lock_now
from tfscale.core.errors import UsageError
from tfscale.core.settings.user_folders import user_state_folder

_LOCK = ".lock"


def runs_folder(environment: Mapping[str, str]) -> Path:
    """Return the usual folder of watched runs of this user."""
    return user_state_folder(environment) / "watch"


class RunCatalogue:
    """Folders of the runs of one watch."""

    def __init__(self, root: Path, limits: Limits) -> None:
        """Make the folder, and take it for this process. Raises UsageError where another watch has it."""
        self.root = root
        self._limits = limits
        self._lock = _locked(root)

    def close(self) -> None:
        """Leave the folder to the next watch."""
        self._lock.close()

    def newest(self, spec: ClusterSpec, tape: ActiveRecording) -> RunFolder | None:
        """Return the folder of the cluster's newest run; None where it has none."""
        path = newest_run(self.root, spec)
        facts = None if path is None else read_facts(path)
        return None if path is None or facts is None else RunFolder(path, facts, tape, self._limits)

    def new(self, spec: ClusterSpec, tape: ActiveRecording, begun: float) -> RunFolder:
        """Return a folder for a run that begins, which its recording makes."""
        name = re.sub(r"[^\w.-]", "-", spec.name) + time.strftime("-%Y%m%d-%H%M%S", time.localtime(begun))
        path = next(path for path in _numbered(self.root / name) if not path.exists())
        return RunFolder(path, RunFacts(spec.name, spec.fingerprint, begun), tape, self._limits)

    def unreported(self) -> list[Path]:
        """List the folders of runs that have ended and have no report, as where a watch died while writing it."""
        ended = [path for path, facts in _runs(self.root) if facts.ended is not None and recordings_in(path)]
        return [path for path in ended if not (path / REPORTS[-1]).exists()]


def newest_run(root: Path, spec: ClusterSpec) -> Path | None:
    """Return the folder of the cluster's newest run in the folder of a watch; None without any."""
    identity = spec.name, spec.fingerprint
    known = [(facts.begun, path) for path, facts in _runs(root) if (facts.name, facts.fingerprint) == identity]
    return max(known)[1] if known else None


def _runs(root: Path) -> Iterator[tuple[Path, RunFacts]]:
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        if (facts := read_facts(path)) is not None:
            yield path, facts


def _numbered(path: Path) -> Iterator[Path]:
    yield path
    number = 2
    while True:
        yield path.with_name(f"{path.name}-{number}")
        number += 1


def _locked(root: Path) -> IO[str]:
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = (root / _LOCK).open("a", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--runs {root}: {error.strerror}") from None
    if not lock_now(file):
        file.close()
        raise UsageError(f"--runs {root}: another watch writes there: end it, or give this one another folder")
    return file
