"""Tabs of the pages, in the first line of a screen: the digits and a click open them."""

from __future__ import annotations

from rich.text import Text
from textual.message import Message
from textual.reactive import reactive
from tfscale.console.tui.widgets.navigation.clickable_line import ClickableLine

PAGES = ("cluster", "steps", "heat", "events", "advice", "hosts", "log")
"""Pages in the order of their tabs; each has its place as key, from 1 on."""


class PageChosen(Message):
    """Request to open a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.page = page


class TabLine(ClickableLine):
    """Tabs in one line, with the open page marked."""

    DEFAULT_CSS = "TabLine { height: 1; background: $panel; }"

    page: reactive[str] = reactive("")
    """Name of the open page; empty where no tab leads to it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.set_reactive(TabLine.page, page)

    def render(self) -> Text:
        palette, text = self.appearance.palette, self.begin()
        edge = " " if sum(len(name) + 4 for name in PAGES) <= self.size.width else ""
        for place, name in enumerate(PAGES, 1):
            is_open, begin = name == self.page, text.cell_len
            background = f" on {palette.selected}" if is_open else ""
            text.append(f"{edge}{place} ", style=palette.parts["transfer"] + background)
            text.append(f"{name} ", style=(f"bold {palette.text}" if is_open else palette.dim) + background)
            self.note(begin, text.cell_len, name)
        return text

    def chosen(self, meaning: str) -> None:
        self.post_message(PageChosen(meaning))
