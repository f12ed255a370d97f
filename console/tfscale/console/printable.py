"""What others wrote, fit for a terminal: the colours of a log, or what moves a cursor, would draw over the screen."""

from __future__ import annotations

import re

_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?")
"""Control sequences [ECMA-48], commands to the operating system, and lone escapes."""


def printable(text: str) -> str:
    """The text without control sequences, and with a space for each other character that cannot be printed."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else " " for each in _ESCAPES.sub("", text))
