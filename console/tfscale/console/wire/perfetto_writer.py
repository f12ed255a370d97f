"""Writer of a trace in Perfetto's format, packet by packet: tracks, slices, numbers, and many slices at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import IO

import numpy as np
from google.protobuf.message import Message
from numpy.typing import NDArray
from tfscale.console.analysis.steps.arrays import Integers
from tfscale.v1.perfetto_pb2 import (
    ClockSnapshot,
    CounterDescriptor,
    DebugAnnotation,
    InternedData,
    InternedName,
    Trace,
    TracePacket,
    TrackDescriptor,
    TrackEvent,
)

_SEQUENCE = 1
_REALTIME, _BOOTTIME = 1, 6
_NAMES_BEGIN, _NAMES_NEEDED = 1, 2
_BEGIN, _END = TrackEvent.TYPE_SLICE_BEGIN, TrackEvent.TYPE_SLICE_END
_TIME_BYTES, _NUMBER_BYTES = 9, 5
"""Bytes of a varint that holds a time (nanoseconds of the years 1972 to 2262 have as many), and a counted number."""
_TIME_GAP = (1 << 56) | 1
"""Time of a packet in a pattern: its place is found by its bytes, and filled with the times of the slices."""
_NUMBER_GAP = (1 << 28) | 1
Argument = str | int | float
Edge = tuple[str, bool, int]
"""Name of a slice, True where it begins, and the column of its time."""


def nanoseconds(at: float) -> int:
    """Return Unix seconds in nanoseconds; as floats, times of these days are 240 ns apart."""
    return round(at * 1e9)


class PerfettoWriter:
    """Trace that is written to a file as it comes; times are nanoseconds since 1970, which the viewer shows as UTC."""

    def __init__(self, file: IO[bytes], at: int) -> None:
        """Begin the trace; `at` is any moment in it."""
        self._file = file
        self._names: dict[str, int] = {}
        """Number of each name that was written, as a slice's and as an argument's."""
        self._tracks = 0
        self._patterns: dict[tuple[int, tuple[Edge, ...]], _Pattern] = {}
        clocks = [ClockSnapshot.Clock(clock_id=each, timestamp=at) for each in (_REALTIME, _BOOTTIME)]
        self._write(TracePacket(clock_snapshot=ClockSnapshot(clocks=clocks), sequence_flags=_NAMES_BEGIN))

    def group(self, name: str, rank: int) -> int:
        """Write a track of slices that has others below it, and return its number.

        Groups of a low `rank` are above. The viewer shows those below a group only once it is opened.
        """
        return self._describe(
            TrackDescriptor(name=name, sibling_order_rank=rank, child_ordering=TrackDescriptor.EXPLICIT)
        )

    def track(self, group: int, name: str, rank: int) -> int:
        """Write a track of slices in a group, those of a low `rank` above, and return its number."""
        return self._describe(TrackDescriptor(name=name, parent_uuid=group, sibling_order_rank=rank))

    def counter(self, group: int, name: str, unit: str, rank: int) -> int:
        """Write a track of numbers in a group, and return its number."""
        counter = CounterDescriptor(unit_name=unit)
        return self._describe(TrackDescriptor(name=name, parent_uuid=group, counter=counter, sibling_order_rank=rank))

    def slice(self, track: int, name: str, begin: int, end: int, arguments: Mapping[str, Argument]) -> None:
        """Write one slice, with what is known of it."""
        values = [_annotation(self._name(key), value) for key, value in arguments.items()]
        event = TrackEvent(type=_BEGIN, track_uuid=track, name_iid=self._name(name), debug_annotations=values)
        self._write(TracePacket(timestamp=begin, track_event=event))
        self._write(TracePacket(timestamp=end, track_event=TrackEvent(type=_END, track_uuid=track)))

    def count(self, track: int, at: int, value: float) -> None:
        """Write the value of a counter from `at` on."""
        event = TrackEvent(type=TrackEvent.TYPE_COUNTER, track_uuid=track, double_counter_value=value)
        self._write(TracePacket(timestamp=at, track_event=event))

    def slices(self, track: int, edges: Sequence[Edge], times: Integers, numbers: Integers) -> Iterable[bytes]:
        """Return each of k groups of nested slices as bytes for `write`, with its number as `sequence`.

        `times` are (k, c) nanoseconds, whose columns the edges name; the number stands at the first edge.
        """
        key = track, tuple(edges)
        if key not in self._patterns:
            self._patterns[key] = _Pattern(b"".join(self._gaps(track, edges)), [column for *_, column in edges])
        return self._patterns[key].filled(times, numbers)

    def write(self, packets: bytes) -> None:
        self._file.write(packets)

    def _gaps(self, track: int, edges: Iterable[Edge]) -> Iterable[bytes]:
        for index, (name, begins, _) in enumerate(edges):
            event = TrackEvent(type=_BEGIN if begins else _END, track_uuid=track)
            if begins:
                event.name_iid = self._name(name)
            if index == 0:
                event.debug_annotations.append(_annotation(self._name("sequence"), _NUMBER_GAP))
            yield self._packet(TracePacket(timestamp=_TIME_GAP, track_event=event))

    def _describe(self, descriptor: TrackDescriptor) -> int:
        self._tracks += 1
        descriptor.uuid = self._tracks
        self._write(TracePacket(track_descriptor=descriptor))
        return self._tracks

    def _name(self, text: str) -> int:
        """Return the number of a name, which is written before its first use."""
        if text not in self._names:
            number = self._names[text] = len(self._names) + 1
            names = [InternedName(iid=number, name=text)]
            self._write(TracePacket(interned_data=InternedData(event_names=names, debug_annotation_names=names)))
        return self._names[text]

    def _write(self, packet: TracePacket) -> None:
        self._file.write(self._packet(packet))

    def _packet(self, packet: TracePacket) -> bytes:
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.sequence_flags |= _NAMES_NEEDED
        return _bytes(Trace(packet=[packet]))


def _bytes(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)


def _annotation(name: int, value: Argument) -> DebugAnnotation:
    match value:
        case str():
            return DebugAnnotation(name_iid=name, string_value=value)
        case int():
            return DebugAnnotation(name_iid=name, uint_value=value)
    return DebugAnnotation(name_iid=name, double_value=value)


class _Pattern:
    """Packets of one group of slices, in which the times and a number are left open.

    All groups of a track are equal but for these, which have as many bytes in each: so k groups are filled at once.
    Made message by message, the seven slices of a step took 91 us, and so 5 (on one core, measured in turn).
    """

    def __init__(self, packets: bytes, columns: Sequence[int]) -> None:
        self._packets = np.frombuffer(packets, np.uint8)
        self._columns = list(columns)
        gap, number = (bytes(_varints(np.array([value]), size)[0]) for value, size in _GAPS)
        pieces = packets.split(gap)
        begins = np.cumsum([len(piece) for piece in pieces[:-1]]) + _TIME_BYTES * np.arange(len(columns))
        self._times = (begins[:, None] + np.arange(_TIME_BYTES)).ravel()
        self._number = packets.index(number) + np.arange(_NUMBER_BYTES)

    def filled(self, times: Integers, numbers: Integers) -> Iterable[bytes]:
        rows = np.tile(self._packets, (len(times), 1))
        rows[:, self._times] = _varints(times[:, self._columns], _TIME_BYTES).reshape(len(times), -1)
        rows[:, self._number] = _varints(numbers, _NUMBER_BYTES)
        return map(bytes, rows)


_GAPS = ((_TIME_GAP, _TIME_BYTES), (_NUMBER_GAP, _NUMBER_BYTES))


def _varints(values: Integers, size: int) -> NDArray[np.uint8]:
    """Return (..., size) bytes of protobuf's varints, filled up with zeros that readers take for what they are."""
    digits = (values[..., None] >> (7 * np.arange(size))) & 0x7F
    digits[..., :-1] |= 0x80
    return digits.astype(np.uint8)
