"""Checkpoints of a run: made after each epoch and when the run is asked to end; the newest is restored."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf
from tfscale.core.errors import TfscaleError
from tfscale.trainer.saving.whole_files import reason

KEPT = 5
"""Number of newest checkpoints that are kept. An evaluator reads one while newer ones are written: with one or two,
a slow evaluator would lose the checkpoint that it reads; each takes the room of model and optimizer."""

INDEX = "checkpoint"
"""File in which TensorFlow keeps the name of the newest."""

UNREADABLE = (tf.errors.OpError, IndexError)
"""Errors of TensorFlow for damaged files; IndexError where the data end too early."""


class Checkpoints:
    """Checkpoints in a folder that all tasks of a run share; without a folder nothing is saved.

    Args:
        folder: where they are, None for nowhere.
        model: built.
        optimizer: its variables are made here, in the strategy's scope, if they are not there yet.
        keeps: whether this task's checkpoints are kept. All workers save, as reading a variable may need all workers.

    Raises:
        ValueError: the folder cannot be made, or its files are damaged or no checkpoints of this run.
    """

    def __init__(self, folder: Path | None, model: Any, optimizer: Any, keeps: bool) -> None:
        self._folder = folder
        self._handler: Any = None
        self.step = 0
        """Step after which the newest checkpoint was saved, 0 without one."""
        if folder is None:
            return
        optimizer.build(model.trainable_variables)
        self._checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
        self._own = None if keeps else tempfile.TemporaryDirectory(prefix="tfscale-not-kept-")
        place = folder if self._own is None else Path(self._own.name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(error.strerror) from None
        if newest := newest_in(folder):
            self.step = step_of(newest)
        self._manager = tf.train.CheckpointManager(self._checkpoint, str(place), max_to_keep=KEPT)

    def restore(self) -> None:
        """Restore the newest checkpoint, if there is one. Raises ValueError for a checkpoint of another model."""
        if self._folder is None or not self.step:
            return
        path = newest_in(self._folder)
        if path is None:
            raise ValueError("the checkpoints in it were removed just now; start again")
        name = Path(path).name
        try:
            self._checkpoint.restore(path).assert_existing_objects_matched()
        except (AssertionError, ValueError, tf.errors.InvalidArgumentError):
            raise ValueError(f"{name} is of another model or optimizer; name another folder") from None
        except UNREADABLE:
            raise ValueError(f"{name} is damaged; {_instead(self._folder, name)}") from None

    def save(self, step: int) -> None:
        """Save after `step` steps. Raises TfscaleError where there is no room."""
        if self._folder is None:
            return
        try:
            self._manager.save(checkpoint_number=step)
        except (tf.errors.OpError, OSError) as error:
            _remove_pieces(Path(self._manager.directory), step)
            raise TfscaleError(f"--checkpoints {self._folder}: step {step} is not saved: {reason(error)}") from None

    def save_on_sigterm(self, resolver: Any) -> None:
        """Let SIGTERM end this task only after a step on which all workers agree, and after its checkpoint.

        A task that ended at once would leave the others in an all-reduce that cannot end.

        Args:
            resolver: resolver of the cluster whose workers agree, None where this task trains by itself.
        """
        # Nothing for TensorFlow itself to restore or save: its count of steps would be one of worker 0 alone.
        self._nowhere = tempfile.TemporaryDirectory(prefix="tfscale-nothing-")
        nothing = tf.train.CheckpointManager(tf.train.Checkpoint(), self._nowhere.name, max_to_keep=1)
        ending = tf.distribute.experimental.TerminationConfig(exit_fn=_end, save_fn=self.save)
        with _not_on_google_cloud():
            self._handler = tf.distribute.experimental.PreemptionCheckpointHandler(
                resolver, nothing, termination_config=ending
            )

    def after_step(self, step: int) -> None:
        """Save and end, if a task was asked to and this is the step on which all agreed."""
        self._handler.save_checkpoint_if_preempted(step)


def _remove_pieces(folder: Path, step: int) -> None:
    """Remove the files of a save that ran out of room. A checkpoint is whole once its index exists."""
    shutil.rmtree(folder / f"ckpt-{step}_temp", ignore_errors=True)
    pieces = [*folder.glob(f"{INDEX}.tmp*")]
    if not (folder / f"ckpt-{step}.index").exists():
        pieces += folder.glob(f"ckpt-{step}.*")
    for path in pieces:
        with contextlib.suppress(OSError):
            path.unlink()


def newest_in(folder: Path) -> str | None:
    """Return the path of the newest checkpoint, None where none was ever saved.

    Raises ValueError where a saved checkpoint cannot be found: TensorFlow would take it for a fresh start.
    """
    index = folder / INDEX
    if not os.path.lexists(index):
        if saved := _saved_in(folder):
            raise ValueError(f"has {saved[0]}, and no file {INDEX}; {_instead(folder)}")
        return None
    try:
        state = tf.train.get_checkpoint_state(str(folder))
    except ValueError:  # also of bytes that are no text
        state = None
    if state is None:
        raise ValueError(f"the file {INDEX} is unreadable; {_instead(folder)}")
    path = str(state.model_checkpoint_path)
    if not tf.io.gfile.exists(f"{path}.index"):
        raise ValueError(f"the file {INDEX} names {Path(path).name}, which is not there; {_instead(folder)}")
    return path


def _saved_in(folder: Path, but: str = "") -> list[str]:
    """Return the names of the checkpoints with existing files, the newest first."""
    found = [
        (int(end), path.stem) for path in folder.glob("*.index") if (end := path.stem.rpartition("-")[2]).isdecimal()
    ]
    return [name for _, name in sorted(found, reverse=True) if name != but]


def _instead(folder: Path, but: str = "") -> str:
    """Return a line of advice for a newest checkpoint that cannot be restored."""
    if saved := _saved_in(folder, but):
        line = f'model_checkpoint_path: "{saved[0]}"'
        return f"to go on from {saved[0]}, let the file {INDEX} be: {line}; or name another folder"
    return "name another folder to begin anew"


def step_of(path: str) -> int:
    """Return the step of a checkpoint by its path. Raises ValueError for a name without a step."""
    step = path.rpartition("-")[2]
    if not step.isdecimal():
        raise ValueError(f"{Path(path).name} is of another program; name another folder")
    return int(step)


def _end() -> None:
    sys.exit(128 + signal.SIGTERM)


@contextlib.contextmanager
def _not_on_google_cloud() -> Iterator[None]:
    """Let TensorFlow take this host for a host outside of Google Cloud: inside, TensorFlow ignores SIGTERM.

    TensorFlow asks this address, and waits up to five seconds for an answer.
    """
    before = os.environ.get("GCE_METADATA_IP")
    os.environ["GCE_METADATA_IP"] = "127.0.0.1:9"
    try:
        yield
    finally:
        del os.environ["GCE_METADATA_IP"]
        if before is not None:
            os.environ["GCE_METADATA_IP"] = before
