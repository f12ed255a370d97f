"""JSON objects in files, with a checksum: one that a disk has changed must not be taken for the truth.

Standard library alone, because the shim imports this module.
"""

from __future__ import annotations

import json
import re
from binascii import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_CHECKSUM = re.compile(r', "crc32": "([0-9a-f]{8})"\}\s*$')


def with_checksum(given: Mapping[str, object]) -> str:
    """Return an object as JSON whose last entry is the CRC-32 of all before it."""
    text = json.dumps(given)[:-1]
    return f'{text}, "crc32": "{_checksum(text)}"}}'


def checked(text: str | bytes) -> Any:
    """Return what the JSON says. Raises ValueError where it is none, or its checksum is another one.

    Files of earlier versions have no checksum.
    """
    text = text if isinstance(text, str) else text.decode()
    found = _CHECKSUM.search(text)
    if found is not None and _checksum(text[: found.start()]) != found[1]:
        raise ValueError("its checksum is wrong")
    return json.loads(text)


def _checksum(text: str) -> str:
    return f"{crc32(text.encode()):08x}"
