"""Code of an earlier commit beside that of today: the base of `compare --against HEAD~1`."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tfscale.core.errors import UsageError
from tfscale.trainer.compare.axes import parse_axes
from tfscale.trainer.launch.local_cluster import run_folder

CODE = "code"
"""Axis of a comparison with an earlier commit."""
NOW = "now"


@dataclass(frozen=True, slots=True)
class EarlierCode:
    """Files of a commit in a folder of their own."""

    commit: str
    """Its name, as it was given."""
    identity: str
    """Its hash, and what tells the tracked files of now."""
    folder: Path
    """In the place of the working folder."""

    def placed(self, command: Sequence[str]) -> list[str]:
        """Return the command with {code} before each file of the commit. Raises UsageError where it names none."""
        placed = [f"{{{CODE}}}/{word}" if self._has(word) else word for word in command]
        # A shell script of that commit starts the program of now.
        if not any(self._has(word) and word.endswith(".py") for word in command):
            raise UsageError(
                f"--against {self.commit}: the command names no Python file of that commit: write -- python train.py"
            )
        return placed

    def _has(self, word: str) -> bool:
        return not Path(word).is_absolute() and (self.folder / word).is_file()

    @property
    def folders(self) -> dict[str, str]:
        """Folder for each value of the axis."""
        return {self.commit: str(self.folder), NOW: "."}


@contextlib.contextmanager
def earlier_code(commit: str | None) -> Iterator[EarlierCode | None]:
    """Yield the files of a commit of the working folder's repository; None without one. Raises UsageError."""
    if commit is None:
        yield None
        return
    identity = _git(commit, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
    if parse_axes([f"{CODE}={commit};{NOW}"])[0].values != (commit, NOW) or commit == NOW:
        raise UsageError(
            f"--against {commit}: means something else here; write the hash of that commit, {identity:.10}"
        )
    prefix, difference = _git(commit, "rev-parse", "--show-prefix"), _git(commit, "diff", "--binary", "HEAD")
    now = f"{_git(commit, 'rev-parse', 'HEAD')} {hashlib.sha256(difference.encode()).hexdigest()}"
    with run_folder("tfscale-compare-") as (folder, _):
        # With an index of its own, so that the working folder and what is staged there stay as they are.
        (code := folder / "code").mkdir()
        place = {"GIT_INDEX_FILE": str(folder / "index"), "GIT_WORK_TREE": str(code)}
        _git(commit, "read-tree", "--reset", "-u", identity, variables=place)
        yield EarlierCode(commit, f"{identity} {now}", code / prefix)


def _git(commit: str, *words: str, variables: Mapping[str, str] = MappingProxyType({})) -> str:
    try:
        found = subprocess.run(
            ["git", *words], env=os.environ | variables, capture_output=True, text=True, errors="replace", check=True
        )
        return found.stdout.rstrip("\n")
    except FileNotFoundError:
        raise UsageError(f"--against {commit}: git is not installed here") from None
    except subprocess.CalledProcessError as error:
        why = error.stderr.strip().splitlines()
        raise UsageError(f"--against {commit}: {why[-1] if why else 'there is no such commit'}") from None
