"""Line of words of which some can be clicked."""

from __future__ import annotations

from rich.text import Text
from textual import events
from tfscale.console.tui.widgets.base_widgets import AppearanceWidget


class ClickableLine(AppearanceWidget):
    """Line whose subclass says, while it draws, which cells mean what."""

    def __init__(self) -> None:
        super().__init__()
        self._meanings: list[tuple[int, int, str]] = []
        """First cell, cell after the last, and meaning of each part."""

    def begin(self) -> Text:
        """Begin to draw: nothing can be clicked so far."""
        self._meanings.clear()
        return Text(no_wrap=True, overflow="crop")

    def note(self, begin: int, end: int, meaning: str) -> None:
        """Have the cells from `begin` to before `end` mean this."""
        self._meanings.append((begin, end, meaning))

    def on_click(self, event: events.Click) -> None:
        for begin, end, meaning in self._meanings:
            if begin <= event.x < end:
                self.chosen(meaning)

    def chosen(self, meaning: str) -> None:
        """Do what the clicked part means."""
        raise NotImplementedError
