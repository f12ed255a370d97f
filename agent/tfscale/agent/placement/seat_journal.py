"""Journal of a seat: the newest placement that its agent knows, one JSON file that is replaced as a whole.

It belongs to the seat and not to a task: from it the agent learns its task.
"""

from __future__ import annotations

from tfscale.agent.cluster.journal import JournalError
from tfscale.agent.file_thread import DiskHangs, FileThread
from tfscale.agent.kept_file import check_room, keep
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
        try:
            await keep(self._files, self._path, placement.to_json())
        except (OSError, DiskHangs) as error:
            raise JournalError(f"{self._path}: cannot be written: {error}") from error
        self.placement = placement

    async def check(self) -> None:
        """Raise JournalError where a placement could not be kept now."""
        try:
            await check_room(self._files, self._path)
        except (OSError, DiskHangs) as error:
            raise JournalError(f"{self._path}: cannot be written: {error}") from error
