"""Requests for TensorFlow's profile of the task's process, which its probe takes, one at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

from tfscale.agent.file_thread import DiskHangs, FileThread
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.records.profile import ProfileOrder, ProfileReport, ProfileStage

LONGEST_SECONDS = 60.0
"""Longest profile: a busy program adds megabytes a second, which stay in memory until the profile is written."""
_BEGIN_TIMEOUT = 5.0
"""Seconds for the process to begin a profile, and to end it after the requested time."""
_WRITE_TIMEOUT = 180.0
"""Seconds for the process to write a profile."""


class ProfileUnavailable(TfscaleError):
    """A profile that cannot be taken; the text says why."""


class ProfileBusy(ProfileUnavailable):
    """A profile that was refused because another profile is being taken."""


class ProfileTimeout(ProfileUnavailable):
    """A profile that was requested from the process, without an answer in time."""


_PIECE = 1 << 20
"""Bytes of a profile that are sent at once: gRPC takes messages of up to 4 MiB."""
Content = bytes
"""Type of a content: a field named `bytes` hides its name."""


@dataclass(frozen=True, slots=True)
class ProfileProgress:
    """Stage that a profile has reached at `at` (Unix seconds). `folder` is TensorBoard's --logdir."""

    stage: ProfileStage
    at: float
    folder: str
    file: str = ""
    bytes: int = 0
    content: Content = b""
    """Next piece of the file."""


class Profiler:
    """Link between the callers of `profile` and the process that takes it."""

    def __init__(self) -> None:
        self._orders: asyncio.Queue[ProfileOrder] | None = None
        self._reports: asyncio.Queue[ProfileReport] = asyncio.Queue()
        self._last = 0
        self._is_busy = False
        self._files = FileThread()

    async def listen(self) -> AsyncGenerator[ProfileOrder, None]:
        """Yield the orders for the process that reports, until it disconnects."""
        orders = self._orders = asyncio.Queue()
        try:
            while True:
                yield await orders.get()
        finally:
            if self._orders is orders:
                self._orders = None
                self.report(
                    ProfileReport(self._last, ProfileStage.FAILED, message="the process ended, or its agent did")
                )

    def report(self, report: ProfileReport) -> None:
        """Take a report of the process; a report on an older order is ignored."""
        if report.number == self._last and self._is_busy:
            self._is_busy = report.stage not in (ProfileStage.WRITTEN, ProfileStage.FAILED)
            self._reports.put_nowait(report)

    async def profile(
        self, seconds: float, folder: Path, *, fetch: bool = False
    ) -> AsyncGenerator[ProfileProgress, None]:
        """Profile the process and yield each stage, and with `fetch` the file; the process goes on without the caller.

        Raises UsageError and ProfileUnavailable.
        """
        if not 0 < seconds <= LONGEST_SECONDS:
            raise UsageError(f"{seconds:g} seconds of a profile: ask for more than 0 and at most {LONGEST_SECONDS:.0f}")
        if self._orders is None:
            raise ProfileUnavailable(
                "no probe listens in the task: it does not run, has trained nothing yet, or has no probe"
            )
        if self._is_busy:
            raise ProfileBusy("another profile is being taken: try again when it is written")
        self._last, self._is_busy, self._reports = self._last + 1, True, asyncio.Queue()
        self._orders.put_nowait(ProfileOrder(self._last, seconds, str(folder)))
        yield ProfileProgress(ProfileStage.ASKED, time.time(), str(folder))
        stage, patience = ProfileStage.ASKED, _BEGIN_TIMEOUT
        while stage is not ProfileStage.WRITTEN:
            report = await _next_report(self._reports, patience)
            stage = report.stage
            patience = seconds + _BEGIN_TIMEOUT if stage is ProfileStage.CAPTURING else _WRITE_TIMEOUT
            yield await self._progress(report, folder)
        begin = 0
        while fetch and (content := await self._read(report.file, folder, begin)):
            begin += len(content)
            yield ProfileProgress(ProfileStage.WRITTEN, time.time(), str(folder), content=content)

    async def _read(self, file: str, folder: Path, begin: int) -> bytes:
        """Return a piece of a profile. Raises ProfileUnavailable."""

        def piece() -> bytes:
            path = Path(file).resolve()
            if not path.is_relative_to(folder.resolve()):
                # The agent may read what the operator may not, and the process says what it likes.
                raise ProfileUnavailable(f"{file}: is not below {folder}, and so not sent")
            with path.open("rb") as profile:
                profile.seek(begin)
                return profile.read(_PIECE)

        try:
            return await self._files.call(piece)
        except (OSError, DiskHangs) as error:
            raise ProfileUnavailable(f"{file}: {_reason(error)}") from None

    async def _progress(self, report: ProfileReport, folder: Path) -> ProfileProgress:
        if report.stage is not ProfileStage.WRITTEN:
            return ProfileProgress(report.stage, time.time(), str(folder))
        try:
            size = await self._files.call(lambda: Path(report.file).stat().st_size)
        except (OSError, DiskHangs) as error:
            why = f"the process says that it wrote this: {_reason(error)}"
            raise ProfileUnavailable(f"{report.file}: {why}") from None
        return ProfileProgress(report.stage, time.time(), str(folder), report.file, size)


def _reason(error: OSError | DiskHangs) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


async def _next_report(reports: asyncio.Queue[ProfileReport], patience: float) -> ProfileReport:
    try:
        async with asyncio.timeout(patience):
            report = await reports.get()
    except TimeoutError:
        raise ProfileTimeout(
            f"the process has not answered for {patience:.0f} s: it is stopped, or holds on to Python's lock"
        ) from None
    if report.stage is ProfileStage.FAILED:
        raise ProfileUnavailable(report.message)
    return report
