"""Text for terminals that have ASCII alone."""

from __future__ import annotations

from rich.text import Text
from tfscale.console.widgets.look import Look

_PLAIN = str.maketrans({"–": "-", "…": "~", "°": " ", "·": ".", "×": "x"})


def spell(text: str, look: Look) -> str:
    """The same, character by character in ASCII where the look has nothing else."""
    return text if look.glyphs.eighths else text.translate(_PLAIN)


def spelled(text: Text, look: Look) -> Text:
    """The same text, likewise, with its colours."""
    if not look.glyphs.eighths:
        text.plain = text.plain.translate(_PLAIN)
        # What is cut off on the way to the terminal would end in an ellipsis.
        text.overflow = "crop"
    return text
