"""TensorFlow's profile of one process, from its file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from google.protobuf.message import DecodeError
from tfscale.core.errors import UsageError
from tfscale.core.text import printable
from tfscale.v1.xplane_pb2 import XEvent, XEventMetadata, XLine, XSpace

_ENVIRONMENT, _BEGIN, _END = "Task Environment", "profile_start_time", "profile_stop_time"
"""Plane with the facts about a profile, and its times there, as nanoseconds since 1970 on the host's clock."""


def profile_name(task: str) -> str:
    """Return the name of a task's profile where it is fetched to; TensorBoard takes its begin for a host's name."""
    return f"{task.replace(':', '-')}.xplane.pb"


class Op(NamedTuple):
    """Something that a thread or a device did; nanoseconds since 1970 on the host's clock."""

    name: str
    begin: int
    end: int


class ProfileFile:
    """Profile of some seconds. Its content is read when it is asked for: a profile may have a hundred megabytes."""

    def __init__(self, path: Path) -> None:
        """Read the times. Raises UsageError where the file is no profile, or does not say when it was taken."""
        self.path = path
        times = self._times(self._read())
        if not {_BEGIN, _END} <= times.keys():
            raise UsageError(f"{path}: does not say when it was taken: TensorFlow 2.17 and newer write that")
        self._origin = times[_BEGIN]
        self.begin, self.end = 1e-9 * times[_BEGIN], 1e-9 * times[_END]
        """Unix seconds on the host's clock."""

    def lines(self) -> Iterator[tuple[str, list[Op]]]:
        """Yield the name and the ops of each thread, and of each stream of a device, so that none overlaps another.

        An op lies in another one or beside it.
        """
        for plane in self._read().planes:
            for line in plane.lines:
                name = printable(line.display_name or line.name)
                yield f"{plane.name.removeprefix('/host:CPU')} {name}".strip(), self._ops(line, plane.event_metadata)

    def _read(self) -> XSpace:
        try:
            return XSpace.FromString(self.path.read_bytes())
        except OSError as error:
            raise UsageError(f"{self.path}: {error.strerror}") from None
        except DecodeError:
            raise UsageError(f"{self.path}: is no profile of TensorFlow") from None

    @staticmethod
    def _times(space: XSpace) -> dict[str, int]:
        return {
            plane.stat_metadata[stat.metadata_id].name: stat.uint64_value
            for plane in space.planes
            if plane.name == _ENVIRONMENT
            for stat in plane.stats
        }

    def _ops(self, line: XLine, names: Mapping[int, XEventMetadata]) -> list[Op]:
        ops: list[Op] = []
        around: list[int] = []
        origin = self._origin + line.timestamp_ns
        for event in sorted(line.events, key=_order):
            begin = origin + event.offset_ps // 1000
            while around and around[-1] <= begin:
                around.pop()
            end = min([begin + event.duration_ps // 1000, *around[-1:]])
            around.append(end)
            known = names[event.metadata_id]
            ops.append(Op(printable(known.display_name or known.name), begin, end))
        return ops


def _order(event: XEvent) -> tuple[int, int]:
    """Sort an op before those that lie in it."""
    return event.offset_ps, -event.duration_ps
