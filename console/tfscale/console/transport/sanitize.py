"""Text of others made fit for a terminal: control sequences of a log would colour the screen or move its cursor."""

from __future__ import annotations

import re

_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?")
"""Control sequences [ECMA-48], commands to the operating system, and lone escapes."""


def printable(text: str) -> str:
    """Return the text without control sequences, and with a space for each other character that cannot be printed."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " for char in _ESCAPES.sub("", text))
