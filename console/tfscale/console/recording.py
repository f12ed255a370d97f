"""Recordings: files of what reached a console, as `recorder` writes them, read again as the same events.

    file     = signature, block "head", then blocks
    block    = kind (4 bytes), length (uint32), arrival of its last event (float64), CRC-32 of all else, payload
    "head"   a RecordingHeader
    "open"   begins a chapter, a minute or so that can be read without what comes before it: the connections and the
             agents as they stand then, which who comes from the chapter before knows already
    "more"   events

All integers are little-endian. The payloads of a chapter are one zstd stream, flushed after each block, of `Entries`.
Blocks are only ever appended, two a second, so that a console that is killed loses half a second.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import zstandard
from google.protobuf.message import DecodeError
from tfscale.console.entries import EntryError, decode
from tfscale.console.events import Event
from tfscale.core.cluster import ClusterSpec, parse_cluster
from tfscale.core.errors import UsageError
from tfscale.core.records import SCHEMA_VERSION
from tfscale.v1 import recording_pb2

SUFFIX = ".tfrec"
SIGNATURE = b"\x89tfscale\r\n\x1a\n"
_BLOCK = struct.Struct("<4sIdI")
_CHECKED = struct.Struct("<4sId")
HEAD, OPEN, MORE = b"head", b"open", b"more"
_LARGEST = 1 << 28


class RecordingError(UsageError):
    """A file that is no recording, or one that this tfscale cannot read."""


def block(kind: bytes, at: float, payload: bytes) -> bytes:
    """A block as it stands in the file."""
    checked = _CHECKED.pack(kind, len(payload), at)
    return _BLOCK.pack(kind, len(payload), at, zlib.crc32(payload, zlib.crc32(checked))) + payload


class _Block(NamedTuple):
    kind: bytes
    at: float
    begin: int
    end: int


class Recording:
    """A recording, opened to read. What follows a damaged place is left out; `damage` says so once it was come to."""

    def __init__(self, path: Path) -> None:
        """Raises RecordingError."""
        self.path = path
        self._data = _map(path)
        if self._data[: len(SIGNATURE)] != SIGNATURE:
            raise RecordingError(f"{path}: not a recording of tfscale-console")
        self.damage: str | None = None
        self._blocks: list[_Block] = []
        self._scan()
        header = self._header()
        self.version: str = header.version
        """Of the tfscale that recorded."""
        self._cluster: str = header.cluster
        self.spec = _spec(header.cluster, path)
        self.begin: float = header.begun
        """Unix seconds on the clock of the console that recorded."""
        self.end = self._blocks[-1].at
        """The last event's arrival, as far as the file is whole."""

    def events(self, since: float | None = None) -> Iterator[Event]:
        """The events in the order in which they reached the console; `since` begins with the chapter that holds it."""
        first = self._start(since)
        stream: Any = None
        for number, each in enumerate(self._blocks[first:]):
            if each.kind == OPEN:
                stream = zstandard.ZstdDecompressor().decompressobj()
            try:
                events = decode(stream.decompress(self._payload(each)), self._cluster)
            except (EntryError, zstandard.ZstdError, _ChecksumError) as error:
                self._is_damaged(each.begin, str(error))
                return
            if each.kind == MORE or number == 0:
                yield from events

    def _start(self, since: float | None) -> int:
        opens = [number for number, each in enumerate(self._blocks) if each.kind == OPEN]
        if not opens:
            return len(self._blocks)
        times = [self._blocks[number].at for number in opens]
        return opens[0] if since is None else opens[max(0, bisect_right(times, since) - 1)]

    def _scan(self) -> None:
        """Find the blocks, as far as their lengths lead from one to the next."""
        at = len(SIGNATURE)
        while at < len(self._data):
            begin = at + _BLOCK.size
            if begin > len(self._data):
                self._is_damaged(at, "cut off")
                return
            kind, length, moment, _ = _BLOCK.unpack_from(self._data, at)
            if kind not in (HEAD, OPEN, MORE) or length > _LARGEST:
                self._is_damaged(at, "no block begins there")
                return
            if begin + length > len(self._data):
                self._is_damaged(at, "cut off")
                return
            self._blocks.append(_Block(kind, moment, begin, begin + length))
            at = begin + length

    def _header(self) -> recording_pb2.RecordingHeader:
        try:
            header = recording_pb2.RecordingHeader.FromString(self._payload(self._blocks.pop(0)))
        except (IndexError, DecodeError, _ChecksumError):
            raise RecordingError(f"{self.path}: its first block is damaged: nothing of it can be read") from None
        if not 1 <= header.schema_version <= SCHEMA_VERSION:
            raise RecordingError(
                f"{self.path}: of schema {header.schema_version}: this tfscale reads up to {SCHEMA_VERSION}, update it"
            )
        if not self._blocks:
            raise RecordingError(f"{self.path}: holds no event")
        return header

    def _payload(self, each: _Block) -> bytes:
        payload = self._data[each.begin : each.end]
        checked = _CHECKED.pack(each.kind, len(payload), each.at)
        (told,) = struct.unpack_from("<I", self._data, each.begin - 4)
        if zlib.crc32(payload, zlib.crc32(checked)) != told:
            raise _ChecksumError("its checksum is wrong")
        return payload

    def _is_damaged(self, at: int, why: str) -> None:
        self.damage = f"{self.path}: damaged at byte {at} of {len(self._data)} ({why}): shown as far as that"


class _ChecksumError(ValueError):
    pass


def _map(path: Path) -> bytes | mmap.mmap:
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if os.fstat(file.fileno()).st_size else b""
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise RecordingError(f"{path}: not a recording of tfscale-console") from None


def _spec(cluster: str, path: Path) -> ClusterSpec:
    return parse_cluster(json.loads(cluster), name="recording", where=str(path), base=Path.cwd())
