"""Recordings: files of the events that reached a console, written by `recording_writer` and read here.

    file     = signature, block "head", then blocks
    block    = kind (4 bytes), length (uint32), arrival of its last event (float64), CRC-32 of all else, payload
    "head"   a RecordingHeader
    "open"   begins a chapter, a minute or so that can be read by itself: the connections and the agents at its begin,
             left out by a reader that comes from the chapter before
    "more"   events

All integers are little-endian. The payloads of a chapter are one zstd stream, flushed after each block, of `Entries`.
Blocks are only ever appended, two a second, so that a killed console loses half a second.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import zstandard
from tfscale.console.engine.events import Event
from tfscale.console.wire.entries import EntryError, Header, decode, decode_header
from tfscale.core.cluster.file.cluster_file import read_cluster
from tfscale.core.errors import UsageError
from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.core.validation import is_moment
from tfscale.core.wire.fields import WireError

SUFFIX = ".tfrec"
SIGNATURE = b"\x89tfscale\r\n\x1a\n"
_BLOCK = struct.Struct("<4sIdI")
_CHECKED = struct.Struct("<4sId")
HEAD, OPEN, MORE = b"head", b"open", b"more"
_LARGEST = 1 << 28
"""Bytes of the largest block: a greater length is damage, and would be read into memory."""
_LARGEST_CONTENT = 1 << 26
"""Bytes of the largest block's content (chosen): a few KB of zstd may stand for GB, and a block holds half a second."""
_PIECE = 512
"""Bytes that are decompressed at once: 4 of them may stand for 128 KiB, so that these come to 16 MiB at most."""


class RecordingError(UsageError):
    """Error for a file that is no recording, or that this tfscale cannot read."""


def is_recording(path: Path) -> bool:
    """Decide whether the file begins as recordings do."""
    try:
        with path.open("rb") as file:
            return file.read(len(SIGNATURE)) == SIGNATURE
    except OSError:
        return False


def block_of(kind: bytes, at: float, payload: bytes) -> bytes:
    """Return a block's bytes in the file."""
    checked = _CHECKED.pack(kind, len(payload), at)
    return _BLOCK.pack(kind, len(payload), at, zlib.crc32(payload, zlib.crc32(checked))) + payload


class _Block(NamedTuple):
    kind: bytes
    at: float
    begin: int
    """First byte of the payload."""
    end: int


class Recording:
    """Recording, opened to read. Blocks after a damaged one are left out; `damage` is set once it is reached."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises RecordingError."""
        self.path = path
        self._data = _map(path)
        if self._data[: len(SIGNATURE)] != SIGNATURE:
            raise RecordingError(f"{path}: not a recording of tfscale-console")
        self.damage: str | None = None
        header, first = self._header()
        self.version = header.version
        """Version of the tfscale that recorded."""
        self.cluster = header.cluster
        """The cluster file as JSON."""
        self.spec = read_cluster(header.cluster, name="recording", where=str(path))
        self.begin = header.begun
        """Unix seconds on the clock of the console that recorded."""
        self.end = self.begin
        """Arrival of the last event, Unix seconds, as far as the file is whole."""
        self._chapters: list[tuple[float, int]] = []
        self._scan(first)
        if not self._chapters:
            raise RecordingError(f"{path}: holds no event")

    def events(self, since: float | None = None) -> Iterator[Event]:
        """Yield the events in the order of their arrival at the console, from the chapter that holds `since`."""
        first = 0 if since is None else bisect_right(self._chapters, (since, len(self._data))) - 1
        begin = self._chapters[max(0, first)][1]
        content = _Content()
        for block in self._blocks(begin):
            if block.kind == OPEN:
                content = _Content()
            try:
                data = content.of(self._payload(block))
                if block.kind == MORE or block.begin == begin + _BLOCK.size:
                    yield from decode(data, self.cluster)
            except (EntryError, zstandard.ZstdError, _DamageError) as error:
                self._is_damaged(block.begin, str(error))
                return

    @property
    def size(self) -> int:
        """Bytes up to the end of the last whole block: what is appended there is read after it."""
        end = self._chapters[-1][1]
        for block in self._blocks(end):
            try:
                self._payload(block)
            except _DamageError:
                break
            end = block.end
        return end

    def _header(self) -> tuple[Header, int]:
        """Return the header, and the offset of the first block after it. Raises RecordingError."""
        try:
            block = next(self._blocks(len(SIGNATURE)))
            header = decode_header(self._payload(block))
            if not is_moment(header.begun):
                raise _DamageError
        except (StopIteration, WireError, _DamageError):
            raise RecordingError(f"{self.path}: its first block is damaged: nothing of it can be read") from None
        if not 1 <= header.schema_version <= SCHEMA_VERSION:
            raise RecordingError(
                f"{self.path}: of schema {header.schema_version}: this tfscale reads up to {SCHEMA_VERSION}, update it"
            )
        return header, block.end

    def _scan(self, first: int) -> None:
        """Find the chapters and the end."""
        for block in self._blocks(first):
            if block.kind == OPEN:
                self._chapters.append((block.at, block.begin - _BLOCK.size))
            self.end = block.at

    def _blocks(self, at: int) -> Iterator[_Block]:
        """Yield the blocks from the given byte on, up to the first with a wrong length."""
        while at < len(self._data):
            begin = at + _BLOCK.size
            if begin > len(self._data):
                self._is_damaged(at, "cut off")
                return
            kind, length, arrival, _ = _BLOCK.unpack_from(self._data, at)
            if kind not in (HEAD, OPEN, MORE) or length > _LARGEST or not is_moment(arrival):
                self._is_damaged(at, "no block begins there")
                return
            if begin + length > len(self._data):
                self._is_damaged(at, "cut off")
                return
            yield _Block(kind, arrival, begin, begin + length)
            at = begin + length

    def _payload(self, block: _Block) -> bytes:
        payload = self._data[block.begin : block.end]
        checked = _CHECKED.pack(block.kind, len(payload), block.at)
        (expected,) = struct.unpack_from("<I", self._data, block.begin - 4)
        if zlib.crc32(payload, zlib.crc32(checked)) != expected:
            raise _DamageError("its checksum is wrong")
        return payload

    def _is_damaged(self, at: int, reason: str) -> None:
        self.damage = f"{self.path}: damaged at byte {at} of {len(self._data)} ({reason}): shown as far as that"


class _DamageError(ValueError):
    pass


class _Content:
    """Content of a chapter's blocks: each continues one stream of zstd."""

    def __init__(self) -> None:
        self._stream = zstandard.ZstdDecompressor().decompressobj()

    def of(self, payload: bytes) -> bytes:
        """Return what the next block holds. Raises ZstdError, and _DamageError where that is more than 64 MiB."""
        pieces, size = [], 0
        for begin in range(0, len(payload), _PIECE):
            pieces.append(self._stream.decompress(payload[begin : begin + _PIECE]))
            size += len(pieces[-1])
            if size > _LARGEST_CONTENT:
                raise _DamageError(f"a block of more than {_LARGEST_CONTENT >> 20} MiB")
        return b"".join(pieces)


def _map(path: Path) -> bytes | mmap.mmap:
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if os.fstat(file.fileno()).st_size else b""
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise RecordingError(f"{path}: not a recording of tfscale-console") from None
