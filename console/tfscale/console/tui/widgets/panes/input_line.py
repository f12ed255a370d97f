"""Input line at the bottom of a screen, for filters and searches."""

from __future__ import annotations

from textual.widgets import Input
from tfscale.console.tui.widgets.navigation.key_bar import KeyBar


class InputLine(Input):
    """Input line in the place of the key bar, so that opening it moves and redraws nothing else."""

    DEFAULT_CSS = "InputLine { height: 1; border: none; padding: 0; display: none; background: $panel; }"

    def __init__(self, hint: str, keys: KeyBar, select_on_focus: bool = True) -> None:
        super().__init__(placeholder=hint, compact=True, select_on_focus=select_on_focus)
        self._keys = keys

    def open(self) -> None:
        """Show the line and give it the focus."""
        self._show(True)
        self.focus()

    def close(self) -> None:
        """Show the key bar again and keep the text."""
        self._show(False)

    def forget(self) -> None:
        """Show the key bar again and clear the text."""
        self.value = ""
        self.close()

    def _show(self, is_open: bool) -> None:
        self.display, self._keys.display = is_open, not is_open
