"""Files that callbacks of Keras 3 write on all workers: backups, CSV files, events of TensorBoard.

In Keras 3.15.1 all workers write to the same place, and one removes the backup while another writes it. Here the chief
claims its place when training begins; a worker that finds the claim after the first epoch leaves the place to the
chief, as tf_keras does.
"""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

from tfscale.trainer.compat.keras3.shared_places import claim, is_chief, is_follower, is_own


def repair_backup(module: Any) -> None:
    """Let the chief alone back up and remove the backup; all restore. Module `keras.src.callbacks.backup_and_restore`.

    The workers of a restarted cluster read the chief's.
    """
    kind = module.BackupAndRestore
    _claim_first(kind, "on_train_begin", lambda self: self.backup_dir)
    for name in ("_save_model", "on_train_end"):
        setattr(kind, name, _if_own(getattr(kind, name)))


def _if_own(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self, *args, **kwargs) if not is_follower() or is_own(self.backup_dir) else None

    return method


def repair_csv(module: Any) -> None:
    """Let a worker open its CSV file when the first epoch is over. Module `keras.src.callbacks.csv_logger`."""
    kind = module.CSVLogger
    _claim_first(kind, "on_train_begin", lambda self: self.filename)
    begin, end_epoch = kind.on_train_begin, kind.on_epoch_end

    @functools.wraps(begin)
    def on_train_begin(self: Any, logs: Any = None) -> None:
        self._tfscale_waits = is_follower()
        if not self._tfscale_waits:
            begin(self, logs)

    @functools.wraps(end_epoch)
    def on_epoch_end(self: Any, epoch: Any, logs: Any = None) -> None:
        if self._tfscale_waits:
            self._tfscale_waits = False
            _begin_elsewhere(self, begin)
        end_epoch(self, epoch, logs)

    kind.on_train_begin, kind.on_epoch_end = on_train_begin, on_epoch_end


def _begin_elsewhere(callback: Any, begin: Callable[..., Any]) -> None:
    """Open the file of a worker: no file, if the chief writes it."""
    named = callback.filename
    callback.filename = named if is_own(named) else os.devnull
    try:
        begin(callback)
    finally:
        callback.filename = named


def repair_events(module: Any) -> None:
    """Keep a worker's events aside until the first epoch is over. Module `keras.src.callbacks.tensorboard`."""
    kind = module.TensorBoard
    _claim_first(kind, "set_model", lambda self: self.log_dir)
    set_model, end = kind.set_model, kind.on_train_end

    @functools.wraps(set_model)
    def write_aside(self: Any, model: Any) -> None:
        if not is_follower():
            set_model(self, model)
            return
        named, self._tfscale_aside = self.log_dir, tempfile.TemporaryDirectory(prefix="tfscale-events-")
        self.log_dir = self._tfscale_aside.name
        try:
            set_model(self, model)
        finally:
            self.log_dir = named

    @functools.wraps(end)
    def on_train_end(self: Any, logs: Any = None) -> None:
        end(self, logs)
        _bring_home(self)

    kind.set_model, kind.on_train_end = write_aside, on_train_end
    for name in ("on_epoch_end", "on_test_end"):
        setattr(kind, name, _then_bring_home(getattr(kind, name)))


def _then_bring_home(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        # Summaries of batches have their writer open all the time.
        is_open = bool(self._prev_summary_state)
        if is_open:
            self._pop_writer()
        _bring_home(self)
        if is_open:
            self._push_writer(self._train_writer, self._global_train_batch)

    return method


def _bring_home(callback: Any) -> None:
    """Move a worker's events to its callback's folder, and write later ones there, if the chief's are not in it."""
    aside = getattr(callback, "_tfscale_aside", None)
    if aside is None or not is_own(callback.log_dir):
        return
    callback._close_writers()
    callback._writers, callback._log_write_dir = {}, callback.log_dir
    callback._train_dir, callback._val_dir = (f"{callback.log_dir}/{name}" for name in ("train", "validation"))
    shutil.copytree(aside.name, callback.log_dir, dirs_exist_ok=True)
    aside.cleanup()
    callback._tfscale_aside = None


def _claim_first(kind: Any, name: str, place: Callable[[Any], str]) -> None:
    original = getattr(kind, name)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_chief():
            claim(place(self))
        return original(self, *args, **kwargs)

    setattr(kind, name, method)
