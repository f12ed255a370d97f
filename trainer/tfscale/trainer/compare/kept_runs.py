"""Runs of a comparison, kept in a file as they are made: the same command goes on with them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from tfscale.core.cluster.local.file_lock import lock_now
from tfscale.core.comparison.program_files import digest
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.settings.user_folders import user_state_folder
from tfscale.trainer.compare.measured_run import MeasuredRun, from_json


class KeptRuns:
    """File with a line for each run."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self.path, self._file = path, file
        runs, end = read_runs(path)
        self._runs = {(run.setting, run.round): run for run in runs}
        if path.stat().st_size > end:
            os.truncate(path, end)

    @property
    def runs(self) -> list[MeasuredRun]:
        return list(self._runs.values())

    def add(self, run: MeasuredRun) -> None:
        """Keep a run. Raises TfscaleError where the disk is full."""
        self._runs[run.setting, run.round] = run
        try:
            self._file.write(json.dumps(asdict(run)) + "\n")
            self._file.flush()
        except OSError as error:
            raise no_room(self.path, error) from None

    def forget(self) -> None:
        """Remove the file: the comparison is told, and the same command begins anew."""
        self.path.unlink(missing_ok=True)


def no_room(place: Path, error: OSError) -> TfscaleError:
    """Return the error of a disk that is full."""
    return TfscaleError(
        f"{place}: {error.strerror}; make room there, and the same command goes on from the runs before"
    )


@contextlib.contextmanager
def kept_runs(words: Sequence[str], files: Sequence[Path]) -> Iterator[KeptRuns]:
    """Yield the runs that are kept of the command of these words and files in this folder.

    Raises UsageError where the same command runs already or this user has no home, and TfscaleError where none can
    be kept.
    """
    identity = [str(Path.cwd()), *words, *map(digest, files)]
    key = hashlib.sha256("\0".join(identity).encode(errors="surrogateescape")).hexdigest()[:12]
    with runs_in(user_state_folder(os.environ) / "comparisons" / f"{key}.jsonl") as kept:
        yield kept


@contextlib.contextmanager
def runs_in(path: Path) -> Iterator[KeptRuns]:
    """Yield the runs that are kept in a file, which is made where it is not there.

    Raises UsageError where another process adds to it, and TfscaleError where none can be kept.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a", encoding="utf-8")
    except OSError as error:
        raise TfscaleError(
            f"{path}: runs cannot be kept there ({error.strerror}): name another folder, for scale by --folder, else "
            "by the variable XDG_STATE_HOME"
        ) from None
    try:
        if not lock_now(file):
            raise UsageError(f"{path}: the same command runs already; wait for its end, or end it")
        yield KeptRuns(path, file)
    finally:
        with contextlib.suppress(OSError):
            if path.exists() and not path.stat().st_size:
                path.unlink()
        # What could not be written was told then.
        with contextlib.suppress(OSError):
            file.close()


def read_runs(path: Path) -> tuple[list[MeasuredRun], int]:
    """Return the runs of a file up to one that is damaged, as by a full disk, and the bytes until there."""
    found, end = [], 0
    with path.open("rb") as file:
        for line in file:
            try:
                found.append(from_json(line.decode()))
            except (ValueError, TypeError, KeyError):
                break
            end += len(line)
    return found, end
