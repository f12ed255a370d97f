"""Journal of a seat: the newest placement that its agent was told, one JSON file that is replaced as a whole.

It belongs to the seat and not to a task, because the agent learns from it which task it holds.
"""

from __future__ import annotations

import os
import threading

from tfscale.agent.cluster.journal import JournalError
from tfscale.agent.file_thread import DiskHangs, FileThread
from tfscale.agent.private_file import open_private, replace_for_good
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.local.private_folder import make_private
from tfscale.core.cluster.placement.placement import Placement, PlacementError, file_placement, parse_placement


class SeatJournal:
    """Placement that is kept on disk. Raises JournalError if it cannot be read."""

    def __init__(self, settings: AgentSettings) -> None:
        folder, seat = settings.files.folder, settings.seat
        assert seat is not None
        self._path = folder / f"seat-{seat.host}-{seat.port}.json"
        self._files = FileThread()
        try:
            if why := make_private(folder):
                raise JournalError(f"{folder}: cannot keep state there ({why}): give --state-dir")
            self.placement = parse_placement(self._path.read_text(), settings.cluster)
        except FileNotFoundError:
            self.placement = file_placement(settings.cluster)
        except (OSError, ValueError, PlacementError) as error:
            raise JournalError(
                f"{self._path}: cannot be read ({error}): mend it, or remove it to take the cluster file's placement"
            ) from error

    async def put(self, placement: Placement) -> None:
        """Keep a placement, on disk first. Raises JournalError."""
        given_up = threading.Event()
        try:
            await self._files.call(lambda: self._write(placement.to_json(), given_up))
        except (OSError, DiskHangs) as error:
            given_up.set()
            raise JournalError(f"{self._path}: cannot be written: {error}") from error
        self.placement = placement

    def _write(self, text: str, given_up: threading.Event) -> None:
        temporary = self._path.with_name(self._path.name + ".new")
        with os.fdopen(open_private(str(temporary), os.O_WRONLY | os.O_TRUNC), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if not given_up.is_set():
            replace_for_good(str(temporary), str(self._path))
