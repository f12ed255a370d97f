"""Event files of TensorBoard: a folder for the cluster and one for each task, so that a chart has a line for each."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter
from tfscale.console.tracking.run_series import Moment


def open_run(folder: str, _run: str, _found: str) -> TensorBoardTracker:
    """Open the event files of a run below a folder. Raises OSError."""
    return TensorBoardTracker(Path(folder).expanduser())


class TensorBoardTracker:
    """Writer of event files, by TensorBoard's own messages: its writer of files would import TensorFlow."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self.where = folder, str(folder)
        self._name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.tfscale"
        self._files: dict[str, Any] = {}

    def write(self, moment: Moment) -> None:
        for subject, numbers in moment.values.items():
            values = [Summary.Value(tag=name, simple_value=value) for name, value in numbers.items()]
            self._write(subject, Event(wall_time=moment.at, step=moment.step, summary=Summary(value=values)))
        for file in self._files.values():
            file.flush()

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _write(self, subject: str, event: Event) -> None:
        if subject not in self._files:
            folder = self._folder / subject
            folder.mkdir(exist_ok=True)
            self._files[subject] = RecordWriter((folder / self._name).open("wb"))
            first = Event(wall_time=event.wall_time, file_version="brain.Event:2")
            self._files[subject].write(first.SerializeToString())
        self._files[subject].write(event.SerializeToString())
