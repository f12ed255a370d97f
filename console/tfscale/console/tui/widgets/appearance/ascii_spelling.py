"""Text in ASCII, for terminals without Unicode."""

from __future__ import annotations

from rich.text import Text
from tfscale.console.tui.widgets.appearance.theme import Appearance


def spelled(text: Text, appearance: Appearance) -> Text:
    """Replace the signs that the terminal lacks; colours stay."""
    if not appearance.glyphs.eighths:
        text.plain = appearance.spell(text.plain)
        # Textual would end cropped text in an ellipsis, which is not ASCII.
        text.overflow = "crop"
    return text
