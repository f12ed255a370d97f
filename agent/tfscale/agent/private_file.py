"""Files that are this user's alone. Standard library alone, without pathlib: the shim opens its files so, too."""

from __future__ import annotations

import os


def open_private(path: str, flags: int) -> int:
    """Return the descriptor of a file, made if absent, that nobody else may read or write.

    A link in its place is not followed, and the file of another user is not taken. Raises OSError.
    """
    descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(descriptor, 0o600)  # whatever the umask, and whoever has made it
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def replace_for_good(temporary: str, path: str) -> None:
    """Move a written and synced file to another file's place; a crash of the machine leaves one of the two.

    Raises OSError.
    """
    os.replace(temporary, path)  # noqa: PTH105
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # noqa: PTH120
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
