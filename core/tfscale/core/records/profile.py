"""Order for a profile, and the progress of the process with it."""

from __future__ import annotations

from dataclasses import dataclass

from tfscale.core.text_enum import TextEnum


class ProfileStage(TextEnum):
    """Progress of a profile."""

    ASKED = "asked"
    """The order was sent to the process."""
    CAPTURING = "capturing"
    WRITING = "writing"
    WRITTEN = "written"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ProfileOrder:
    """Request to a training process to write TensorFlow's profile of itself for some seconds into a folder."""

    number: int
    seconds: float
    folder: str


@dataclass(frozen=True, slots=True)
class ProfileReport:
    """Progress of a profile in the training process; `number` is that of the order."""

    number: int
    stage: ProfileStage
    file: str = ""
    """The profile, once it is written."""
    message: str = ""
    """Reason of a profile's failure."""
