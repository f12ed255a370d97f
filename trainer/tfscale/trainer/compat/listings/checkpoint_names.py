"""Names of checkpoints without the ending that Keras 3 wants, such as `ckpt_{epoch}`.

Stock Keras (seen with 3.15.1) raises ValueError. Here weights go to `ckpt_1.weights.h5`, and are found again under the
printed name, also by `tf.train.latest_checkpoint`.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

from tfscale.trainer.compat.listings.erratum import note

_WEIGHTS, _MODEL, _MODELS = ".weights.h5", ".keras", (".keras", ".h5")


def repair_callback(module: Any) -> None:
    """Complete the name that a ModelCheckpoint is made with."""
    kind = module.ModelCheckpoint
    make = kind.__init__

    @functools.wraps(make)
    def made(self: Any, filepath: Any, *args: Any, **kwargs: Any) -> None:
        only_weights = kwargs.get("save_weights_only", args[3] if len(args) > 3 else False)
        make(self, _completed(filepath, bool(only_weights)), *args, **kwargs)

    kind.__init__ = made


def repair_model(module: Any) -> None:
    """Complete the names that `save_weights` and `load_weights` are called with."""
    kind = module.Model
    save, load = kind.save_weights, kind.load_weights

    @functools.wraps(save)
    def save_weights(self: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        return save(self, _completed(filepath, only_weights=True), *args, **kwargs)

    @functools.wraps(load)
    def load_weights(self: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        named = f"{os.fspath(filepath)}{_WEIGHTS}" if isinstance(filepath, str | os.PathLike) else ""
        return load(self, named if named and Path(named).exists() else filepath, *args, **kwargs)

    kind.save_weights, kind.load_weights = save_weights, load_weights


def repair_search(tensorflow: Any) -> None:
    """Let `tf.train.latest_checkpoint` find the newest weights of Keras 3 where there is nothing else."""
    search = tensorflow.train.latest_checkpoint

    @functools.wraps(search)
    def latest_checkpoint(checkpoint_dir: Any, latest_filename: Any = None) -> Any:
        found = search(checkpoint_dir, latest_filename)
        if found is not None or latest_filename is not None:
            return found
        weights = sorted(Path(checkpoint_dir).glob(f"*{_WEIGHTS}"), key=lambda path: path.stat().st_mtime_ns)
        return str(weights[-1]) if weights else None

    tensorflow.train.latest_checkpoint = latest_checkpoint


def _completed(filepath: Any, only_weights: bool) -> Any:
    name = os.fspath(filepath) if isinstance(filepath, str | os.PathLike) else ""
    if not name or name.endswith(_WEIGHTS if only_weights else _MODELS):
        return filepath
    completed = f"{name.removesuffix('.h5')}{_WEIGHTS if only_weights else _MODEL}"
    note(f"Keras 3 writes no checkpoint named {Path(name).name!r}: it is {Path(completed).name!r} here; write that")
    return completed
