"""Queue of the reports that are to be written, one at a time, each by a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Iterable
from pathlib import Path

from tfscale.console.watch.run_folder import REPORTS

_logger = logging.getLogger(__name__)


class ReportQueue:
    """Folders of runs that have ended, the first of which is reported now."""

    def __init__(self, folders: Iterable[Path] = ()) -> None:
        self._waiting: asyncio.Queue[Path] = asyncio.Queue()
        for folder in folders:
            self.add(folder)

    def add(self, folder: Path) -> None:
        """Have the report of a folder written once those before it are."""
        self._waiting.put_nowait(folder)

    async def run(self) -> None:
        """Write reports until cancelled: one that is cut off is written by the next watch."""
        while True:
            folder = await self._waiting.get()
            try:
                await self._write(folder)
            except OSError as error:
                _logger.error("no report of %s: its writer cannot be started: %s", folder, error.strerror)

    async def _write(self, folder: Path) -> None:
        command = [sys.executable, "-m", "tfscale.console.watch.report_writer", str(folder)]
        nothing, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdin=nothing, stdout=nothing, stderr=pipe)
        try:
            _, said = await process.communicate()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.communicate()
        if process.returncode:
            last = said.decode(errors="replace").strip().rpartition("\n")[2]
            _logger.error("no report of %s: %s", folder, last or f"its writer ended with {process.returncode}")
        else:
            _logger.info("wrote %s", folder / REPORTS[0])
