"""File that is written whole or not at all: readers see the file of before or the new one."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_MOST_NAME = 200
"""Bytes of the file's name in that of its draft; a name has at most 255 on most disks."""


def write_whole(path: Path, content: bytes | str, *, is_private: bool = False) -> None:
    """Write a file as a whole; text is UTF-8. As `whole_file`. Raises OSError."""
    with whole_file(path, is_private=is_private) as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def write_output(path: Path, text: str) -> None:
    """Write a text as a whole; where a device, a pipe or a link such as /dev/stdout leads, in place. Raises OSError."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        path.write_text(text, encoding="utf-8")
    else:
        write_whole(path, text)


@contextlib.contextmanager
def whole_file(path: Path, *, is_private: bool = False) -> Iterator[BinaryIO]:
    """Yield a file beside `path`, and put it in its place at the end of the block.

    After an error nothing is left of it. A private file can be read by this user alone. A device or a pipe is not
    replaced. Raises OSError.
    """
    if not path.name or (path.exists() and not path.is_file()):
        raise OSError(errno.EINVAL, "Is a directory" if path.is_dir() else "Is no regular file", str(path))
    name = os.fsdecode(os.fsencode(path.name)[:_MOST_NAME])
    draft = path.with_name(f".{name}.{secrets.token_hex(4)}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if is_private else 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
