"""Code of an earlier commit beside that of today: the base of `compare --against HEAD~1`."""

from __future__ import annotations

import contextlib
import io
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfscale.core.errors import UsageError
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
    """Its hash; empty without a commit."""
    folder: Path
    """In the place of the working folder."""

    def placed(self, command: Sequence[str]) -> list[str]:
        """Return the command with {code} before each file of the commit. Raises UsageError where it names none."""
        placed = [f"{{{CODE}}}/{word}" if self._has(word) else word for word in command]
        if placed == list(command):
            raise UsageError(
                f"--against {self.commit}: the command names no file of that commit: write -- python train.py"
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
    top, prefix = _git(commit, "rev-parse", "--show-toplevel"), _git(commit, "rev-parse", "--show-prefix")
    with run_folder("tfscale-compare-") as (folder, _):
        made = subprocess.run(["git", "-C", top, "archive", identity], stdout=subprocess.PIPE, check=True)
        with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
            archive.extractall(folder, filter="data")
        yield EarlierCode(commit, identity, folder / prefix)


def _git(commit: str, *words: str) -> str:
    try:
        return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout.strip()
    except FileNotFoundError:
        raise UsageError(f"--against {commit}: git is not installed here") from None
    except subprocess.CalledProcessError as error:
        why = error.stderr.strip().splitlines()
        raise UsageError(f"--against {commit}: {why[-1] if why else 'there is no such commit'}") from None
