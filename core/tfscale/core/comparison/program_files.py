"""Files that the command of a program names: with other contents it is another program."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

MOST = 1 << 20
"""Bytes of a file that is taken for code: larger ones are data, which an agent does not read for this."""
_SHOWN = 12


def files_of(command: Sequence[str], folder: Path = Path()) -> list[Path]:
    """Return the files that a command names, which is called in this folder."""
    return [folder / word for word in command if re.search(r"\.\w+$", word) and (folder / word).is_file()]


def digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits. Raises OSError."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def named_code(command: Sequence[str], folder: Path = Path()) -> tuple[str, ...]:
    """Return the files of code that a command names, each with the begin of its digest: `train.py 1f3c5a7b9d0e`.

    One that cannot be read is left out.
    """
    found = []
    for path in dict.fromkeys(files_of(command, folder)):
        try:
            if path.stat().st_size <= MOST:
                found.append(f"{path.name} {digest(path)[:_SHOWN]}")
        except OSError:
            continue
    return tuple(found)
