"""Files of a trained model, in Keras's formats or as a SavedModel; they are the same for every strategy.

A model that is made in a strategy's scope has variables of that strategy: a copy on each replica, on servers, in parts.
So the trained weights are put into a model that is built outside of any scope, and the latter is saved. It has no
optimizer, and loads without the strategy's or the techniques' classes; to go on training there are checkpoints.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfscale.core.errors import TfscaleError, UsageError
from tfscale.trainer.saving.whole_files import check_writable, reason, written_whole

WEIGHTS = ".weights.h5"
WHOLE = (".keras", ".h5")


def save(model: Any, path: Path) -> None:
    """Save a model, whole or not at all, in the format of the name.

    Raises TfscaleError where it cannot be written.
    """
    import tensorflow as tf  # late: places are checked without it

    try:
        with written_whole(path) as part:
            try:
                _write(model, part)
            except (OSError, RuntimeError):
                _lead_into_memory(part)
                raise
    except (OSError, RuntimeError, tf.errors.OpError) as error:  # RuntimeError: of h5py
        raise TfscaleError(f"--save {path}: cannot be written: {reason(error)}") from None


def _write(model: Any, path: Path) -> None:
    if path.name.endswith(WEIGHTS):
        model.save_weights(str(path))
    elif path.suffix in WHOLE:
        model.save(str(path))
    else:
        model.export(str(path))


def _lead_into_memory(part: Path) -> None:
    """Let HDF5 write the rest of a file into memory: after a failed write it still has the file open.

    At the end of the process it flushes the file, and would crash where that fails, too.
    """
    memory = os.memfd_create("not kept")
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of this very listing
            if descriptor.readlink() == part:
                os.dup2(memory, int(descriptor.name), inheritable=False)
    os.close(memory)


def check_names(paths: Sequence[Path]) -> None:
    """Refuse names that ask for no format, or for the same file twice. Raises UsageError."""
    for path in paths:
        if paths.count(path) > 1:
            raise UsageError(f"--save {path} is given twice")
        if path.suffix not in (*WHOLE, ""):
            kinds = f"{', '.join(WHOLE)} or {WEIGHTS}"
            raise UsageError(f"--save {path}: end the name in {kinds}, or name a folder for a SavedModel")


def check_places(paths: Sequence[Path]) -> None:
    """Refuse, before anything is trained, a place where this host cannot write the model. Raises UsageError."""
    for path in paths:
        if not path.absolute().parent.is_dir():
            raise UsageError(f"--save {path}: there is no folder {path.parent}")
        _check_kind(path)
        try:
            check_writable(path)
        except ValueError as error:
            raise UsageError(f"--save {path}: {error}") from None


def _check_kind(path: Path) -> None:
    """Refuse a folder in a file's place, a file in a folder's place, and a folder with other contents."""
    if path.suffix and path.is_dir():
        raise UsageError(f"--save {path}: is a folder, name a file in it")
    if path.suffix or not path.exists():
        return
    if not path.is_dir():
        raise UsageError(f"--save {path}: is a file, and a SavedModel is a folder")
    if any(path.iterdir()) and not (path / "saved_model.pb").exists():
        raise UsageError(f"--save {path}: this folder has something else in it, name another")
    if path.is_mount():  # it cannot be replaced by what was written beside it
        raise UsageError(f"--save {path}: a disk is mounted here, name a folder in it")
