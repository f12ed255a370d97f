"""Files and folders that are written beside their place and then moved: each is there whole or not at all.

A result of hours must not be lost to a place that cannot be written; so places are tried before.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

_OF_GRAPHS = re.compile(r"^\{\{.*?\}\} *| *\[Op:\w+\].*$")
"""Parts of TensorFlow's messages about functions and operations, useless to a reader with a full disk."""
_ERRNO = re.compile(r"\berrno = (\d+)")


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a path to write at; in the end the file is moved to `path`. After an error `path` is unchanged."""
    place = path.resolve()  # a link stays one
    with tempfile.TemporaryDirectory(prefix=".tfscale-", dir=place.parent) as name:
        part, before = Path(name) / place.name, Path(name) / "before"
        yield part
        if not place.is_dir():
            part.replace(place)
            return
        place.rename(before)
        try:
            part.rename(place)
        except OSError:
            before.rename(place)
            raise


def write_text(path: Path, text: str) -> None:
    """Write a file whole; a pipe or a device is written directly. Raises OSError."""
    if _is_special(path):
        path.write_text(text, encoding="utf-8")
        return
    with written_whole(path) as part:
        part.write_text(text, encoding="utf-8")


def check_file(path: Path) -> None:
    """Check that a file may be here. Raises ValueError with the reason why not."""
    try:
        if not path.absolute().parent.is_dir():
            raise ValueError(f"there is no folder {path.parent}")
        if path.is_dir():
            raise ValueError("is a folder, name a file in it")
    except OSError as error:
        raise ValueError(error.strerror) from None


def check_writable(path: Path) -> None:
    """Check, by writing something, that a file or folder can be made here. Raises ValueError with the reason if not.

    The system's own answer differs: root may write everywhere, also on a full disk.
    """
    if path.exists() and not os.access(path, os.W_OK):
        raise ValueError("must not be written to here")
    if not _is_special(path):
        check_folder(path.resolve().parent)


def check_folder(folder: Path) -> None:
    """Check that files can be made in a folder, also in one to be made. Raises ValueError with the reason."""
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise ValueError(f"{there} is no folder")
    try:
        with tempfile.TemporaryFile(dir=there, buffering=0) as trial:
            trial.write(b"\0")
    except OSError as error:
        raise ValueError(f"no file can be made in {there}: {error.strerror}") from None


def reason(error: Exception) -> str:
    """Return the system's words for a failed write, from an error of TensorFlow, h5py or Python."""
    text = str(getattr(error, "message", error))
    number = getattr(error, "errno", None) or (int(found[1]) if (found := _ERRNO.search(text)) else None)
    if number is not None:
        return os.strerror(number)
    return _OF_GRAPHS.sub("", text.partition("\n")[0]).rpartition("; ")[2]


def _is_special(path: Path) -> bool:
    return path.exists() and not (path.is_file() or path.is_dir())
