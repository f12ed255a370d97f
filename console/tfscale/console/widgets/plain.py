"""Text for terminals that have ASCII alone."""

from __future__ import annotations

from rich.text import Text
from tfscale.console.widgets.look import Look


def spelled(text: Text, look: Look) -> Text:
    """The same text in the signs that the terminal has, with its colours."""
    if not look.glyphs.eighths:
        text.plain = look.spell(text.plain)
        # What is cut off on the way to the terminal would end in an ellipsis.
        text.overflow = "crop"
    return text
