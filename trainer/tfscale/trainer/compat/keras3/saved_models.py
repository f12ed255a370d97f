"""Models and weights that all workers save at one path, with Keras 3.

Keras 3.15.1 lets all of them write the same file, and HDF5's lock ends the training; tf_keras gives all but the chief
a temporary place.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfscale.trainer.compat.keras3 import shared_places
from tfscale.trainer.tf_internals import EXPORT_ARCHIVE


def repair(module: Any) -> None:
    """Put the repairs into the module `keras.src.saving.saving_api`."""
    for name in ("save_model", "save_weights"):
        setattr(module, name, _written_apart(getattr(module, name), _is_of_several))
    for name in ("load_model", "load_weights"):
        setattr(module, name, _read_back(getattr(module, name)))


def repair_export(module: Any) -> None:
    """Put the repair into the module `keras.src.models.model`."""
    # The chief's export has its place to itself, and names it in what it prints.
    module.Model.export = _written_apart(module.Model.export, shared_places.is_follower)


def repair_archive(_: Any) -> None:
    """Put the repair into the class that writes an exported model."""
    kind = EXPORT_ARCHIVE.names[0].owner
    kind.write_out = _written_apart(kind.write_out, shared_places.is_follower)


def repair_folders(module: Any) -> None:
    """Let workers make one folder at the same time, in the module `keras.src.utils.file_utils`."""
    original = module.makedirs

    @functools.wraps(original)
    def makedirs(path: Any) -> Any:
        try:
            return original(path)
        except FileExistsError:
            if not (_is_of_several() and module.isdir(path)):
                raise

    module.makedirs = makedirs


def _is_of_several() -> bool:
    return shared_places.is_chief() or shared_places.is_follower()


def _written_apart(original: Callable[..., Any], is_shared: Callable[[], bool]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def write(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        path = _local(given.arguments["filepath"])
        # Keras asks before it overwrites.
        asks = given.arguments.get("overwrite") is False and path is not None and Path(path).exists()
        if path is None or asks or not is_shared():
            return original(*args, **kwargs)
        with shared_places.apart(path) as place:
            given.arguments["filepath"] = place
            return original(*given.args, **given.kwargs)

    return write


def _read_back(original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def read(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        if shared_places.is_follower() and (path := _local(given.arguments["filepath"])) is not None:
            given.arguments["filepath"] = shared_places.newest(path)
        return original(*given.args, **given.kwargs)

    return read


def _local(path: Any) -> str | None:
    """Return a path of this host's file system, None for any other place: a bucket's objects have no locks."""
    if not isinstance(path, str | os.PathLike) or "://" in os.fspath(path):
        return None
    return os.fspath(path)
