"""Has the probe in the task's process take TensorFlow's profile of it, one at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.records import ProfileOrder, ProfileReport, ProfileStage

LONGEST = 60.0
"""Seconds: a profile of a busy program grows by megabytes in each, and is held in its memory until it is written."""
_ANSWER = 5.0
_WRITE = 180.0
"""Seconds that the process has to begin, and to write."""


class ProfileError(TfscaleError):
    """There is no profile to be had; the text says why."""


class ProfileBusyError(ProfileError):
    """Another one is being taken."""


class ProfileSilentError(ProfileError):
    """The process was asked and does not answer in time."""


@dataclass(frozen=True, slots=True)
class Profiled:
    """A moment in the taking of a profile. `folder` is TensorBoard's --logdir."""

    stage: ProfileStage
    at: float
    folder: str
    file: str = ""
    bytes: int = 0


class Profiler:
    """Between whoever asks for profiles and the one process that can take them."""

    def __init__(self) -> None:
        self._orders: asyncio.Queue[ProfileOrder] | None = None
        self._told: asyncio.Queue[ProfileReport] = asyncio.Queue()
        self._last = 0
        self._is_busy = False

    async def listen(self) -> AsyncGenerator[ProfileOrder, None]:
        """What the process that reports shall profile, until it goes."""
        orders = self._orders = asyncio.Queue()
        try:
            while True:
                yield await orders.get()
        finally:
            if self._orders is orders:
                self._orders = None
                self.tell(ProfileReport(self._last, ProfileStage.FAILED, message="the process ended, or its agent did"))

    def tell(self, told: ProfileReport) -> None:
        """The process has come so far."""
        if told.number == self._last and self._is_busy:
            self._is_busy = told.stage not in (ProfileStage.WRITTEN, ProfileStage.FAILED)
            self._told.put_nowait(told)

    async def profile(self, seconds: float, folder: Path) -> AsyncGenerator[Profiled, None]:
        """Profile the process, moment by moment; goes on without the caller. Raises UsageError and ProfileError."""
        if not 0 < seconds <= LONGEST:
            raise UsageError(f"{seconds:g} seconds of a profile: ask for more than 0 and at most {LONGEST:.0f}")
        if self._orders is None:
            raise ProfileError(
                "no probe listens in the task: it does not run, has trained nothing yet, or has no probe"
            )
        if self._is_busy:
            raise ProfileBusyError("another profile is being taken: try again when it is written")
        self._last, self._is_busy, self._told = self._last + 1, True, asyncio.Queue()
        self._orders.put_nowait(ProfileOrder(self._last, seconds, str(folder)))
        yield Profiled(ProfileStage.ASKED, time.time(), str(folder))
        stage, patience = ProfileStage.ASKED, _ANSWER
        while stage is not ProfileStage.WRITTEN:
            told = await _heard(self._told, patience)
            stage = told.stage
            patience = seconds + _ANSWER if stage is ProfileStage.CAPTURING else _WRITE
            yield _moment(told, folder)


async def _heard(told: asyncio.Queue[ProfileReport], patience: float) -> ProfileReport:
    try:
        async with asyncio.timeout(patience):
            heard = await told.get()
    except TimeoutError:
        raise ProfileSilentError(
            f"the process has not answered for {patience:.0f} s: it is stopped, or holds on to Python's lock"
        ) from None
    if heard.stage is ProfileStage.FAILED:
        raise ProfileError(heard.message)
    return heard


def _moment(told: ProfileReport, folder: Path) -> Profiled:
    if told.stage is not ProfileStage.WRITTEN:
        return Profiled(told.stage, time.time(), str(folder))
    try:
        size = Path(told.file).stat().st_size
    except OSError as error:
        raise ProfileError(f"{told.file}: the process says that it wrote this: {error.strerror}") from None
    return Profiled(told.stage, time.time(), str(folder), told.file, size)
