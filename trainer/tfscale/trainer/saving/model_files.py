"""Files of a trained model, the same whatever strategy trained it: in Keras's formats, or as a SavedModel.

A model that is made in a strategy's scope has variables of that strategy: a copy on each replica, on servers, in parts.
So the trained weights are put into a model that is built outside of any scope, and that one is saved. It has no
optimizer, and needs none of the strategy's or the techniques' classes to be loaded; checkpoints are there to go on
training.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfscale.core.errors import TfscaleError, UsageError

WEIGHTS = ".weights.h5"
WHOLE = (".keras", ".h5")


def save(model: Any, path: Path) -> None:
    """Save a model in the format that the name asks for. Raises TfscaleError where it cannot be written."""
    try:
        if path.name.endswith(WEIGHTS):
            model.save_weights(str(path))
        elif path.suffix in WHOLE:
            model.save(str(path))
        else:
            model.export(str(path))
    except OSError as error:
        raise TfscaleError(f"--save {path}: cannot be written: {error.strerror or error}") from error


def check_names(paths: Sequence[Path]) -> None:
    """Refuse names that ask for no format, or for the same file twice. Raises UsageError."""
    for path in paths:
        if paths.count(path) > 1:
            raise UsageError(f"--save {path}: stands there twice")
        if path.suffix not in (*WHOLE, ""):
            kinds = f"{', '.join(WHOLE)} or {WEIGHTS}"
            raise UsageError(f"--save {path}: end the name in {kinds}, or name a folder for a SavedModel")


def check_places(paths: Sequence[Path]) -> None:
    """Refuse, before anything is trained, what this host could not write after it. Raises UsageError."""
    for path in paths:
        if not path.absolute().parent.is_dir():
            raise UsageError(f"--save {path}: there is no folder {path.parent}")
        if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
            raise UsageError(f"--save {path}: must not be written to here")
        _check_kind(path)


def _check_kind(path: Path) -> None:
    """Refuse a folder where a file is to be, a file where a folder is, and a folder of something else."""
    if path.suffix and path.is_dir():
        raise UsageError(f"--save {path}: is a folder, name a file in it")
    if path.suffix or not path.exists():
        return
    if not path.is_dir():
        raise UsageError(f"--save {path}: is a file, and a SavedModel is a folder")
    if any(path.iterdir()) and not (path / "saved_model.pb").exists():
        raise UsageError(f"--save {path}: this folder has something else in it, name another")
