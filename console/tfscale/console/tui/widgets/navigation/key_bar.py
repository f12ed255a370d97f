"""Last lines of a screen: the legend of the bars and the keys."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual.reactive import reactive
from tfscale.console.tui.widgets.base_widgets import AppearanceWidget
from tfscale.console.tui.widgets.charts.step_bar import legend
from tfscale.console.tui.widgets.navigation.clickable_line import ClickableLine
from tfscale.console.tui.widgets.navigation.key_names import key_name


class Legend(AppearanceWidget):
    """Legend of the bars' colours, and the differences of the table's content from all tasks."""

    status: reactive[str] = reactive("")

    def render(self) -> Text:
        background = Style(bgcolor=self.appearance.palette.background)
        parts = ((part.text, background + (part.style or Style())) for part in legend(self.appearance, ""))
        text = Text.assemble(*parts, no_wrap=True)
        if self.status:
            room = max(0, self.size.width - len(self.status) - 1)
            text.truncate(room, pad=True)
            text.append(f" {self.status}", style=f"bold {self.appearance.palette.text}")
        return text


class KeyBar(ClickableLine):
    """Key bar: the keys that work on this screen, in its last line; a click on one presses it."""

    keys: reactive[tuple[tuple[str, str], ...]] = reactive(())
    first: reactive[tuple[tuple[str, str], ...]] = reactive(())
    """Keys before the others: those of a replay."""

    def __init__(self, keys: tuple[tuple[str, str], ...]) -> None:
        super().__init__()
        self.set_reactive(KeyBar.keys, keys)

    def render(self) -> Text:
        """Draw as many keys as fit, and always the last."""
        *keys, last = (*self.first, *(self.keys or (("", ""),)))
        room = self.size.width - sum(map(len, last)) - 1
        text = self.begin()
        for key, meaning in keys:
            if text.cell_len + len(key) + len(meaning) + 3 <= room:
                self._append(text, key, meaning)
        self._append(text, *last)
        return text

    def _append(self, text: Text, keys: str, meaning: str) -> None:
        for key in keys.split(" "):
            begin = text.cell_len
            text.append(f"{key} ", style=f"bold {self.appearance.palette.text}")
            self.note(begin, text.cell_len - 1, key)
        begin = text.cell_len
        text.append(f"{meaning}  ", style=self.appearance.palette.dim)
        self.note(begin - 1, text.cell_len - 2, keys.split(" ")[0])

    def chosen(self, meaning: str) -> None:
        self.app.simulate_key(key_name(meaning))
