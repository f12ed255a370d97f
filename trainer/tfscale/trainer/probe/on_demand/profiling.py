"""Profile of this process by TensorFlow, made on the agent's order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import tensorflow as tf
from tfscale.core.records.profile import ProfileOrder, ProfileReport, ProfileStage


class ProfileError(Exception):
    """A profile that cannot be taken; the text says why."""


def obey(
    order: ProfileOrder,
    send: Callable[[ProfileReport], object],
    wait: Callable[[float], bool],
) -> None:
    """Take the ordered profile in this thread, and send each stage of it.

    `wait` waits for some seconds, and returns True as soon as the process ends.
    """

    def report(stage: ProfileStage, file: str = "", message: str = "") -> None:
        send(ProfileReport(order.number, stage, file, message))

    try:
        begin(order.folder)
        report(ProfileStage.CAPTURING)
        if wait(order.seconds):
            raise ProfileError("the process has come to its end")
        report(ProfileStage.WRITING)
        report(ProfileStage.WRITTEN, file=str(write(order.folder)))
    except (ProfileError, OSError) as error:
        report(ProfileStage.FAILED, message=str(error))


def begin(folder: str) -> None:
    """Begin to record the work of TensorFlow's ops and devices. Raises ProfileError.

    Python's own calls are left out: each would be slower while it is traced.
    """
    options = tf.profiler.experimental.ProfilerOptions(
        host_tracer_level=2, python_tracer_level=0, device_tracer_level=1
    )
    try:
        tf.profiler.experimental.start(folder, options)
    except tf.errors.AlreadyExistsError:
        raise ProfileError("another profiler is at work in the process, its TensorBoard callback perhaps") from None
    except tf.errors.OpError as error:
        raise ProfileError(error.message) from None


def write(folder: str) -> Path:
    """End the recording, and return its file, in TensorBoard's folder. Raises ProfileError."""
    before = set(_files(folder))
    try:
        tf.profiler.experimental.stop()
    except tf.errors.OpError as error:
        raise ProfileError(error.message) from None
    fresh = sorted(set(_files(folder)) - before)
    if not fresh:
        raise ProfileError(f"{folder}: TensorFlow has written nothing there")
    return fresh[-1]


def _files(folder: str) -> list[Path]:
    return list(Path(folder).glob("plugins/profile/*/*.xplane.pb"))
