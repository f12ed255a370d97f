"""Where one writes what is looked for."""

from __future__ import annotations

from textual.widgets import Input
from tfscale.console.widgets.summary import Keys


class InputLine(Input):
    """Takes the place of the keys while one writes: nothing else moves, or is drawn anew."""

    DEFAULT_CSS = "InputLine { height: 1; border: none; padding: 0; display: none; background: $panel; }"

    def __init__(self, hint: str, keys: Keys, select_on_focus: bool = True) -> None:
        super().__init__(placeholder=hint, compact=True, select_on_focus=select_on_focus)
        self._keys = keys

    def open(self) -> None:
        """Write here from now on."""
        self._show(True)
        self.focus()

    def close(self) -> None:
        """The keys come back; what was written stays."""
        self._show(False)

    def forget(self) -> None:
        """The keys come back, and nothing is looked for any more."""
        self.value = ""
        self.close()

    def _show(self, is_open: bool) -> None:
        self.display, self._keys.display = is_open, not is_open
