"""Bases of the widgets: their content depends on the appearance, or on the newest snapshot; a task can be opened."""

from __future__ import annotations

from rich.text import Text
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from tfscale.console.engine.model import Snapshot
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.core.cluster.task import Task


class TaskOpened(Message):
    """Request to open the page of a task, and to read its charts at a moment."""

    def __init__(self, task: Task, moment: float | None = None) -> None:
        super().__init__()
        self.task = task
        self.moment = moment


class CulpritWanted(Message):
    """Request to go to the task that the sentence is about."""


class AppearanceWidget(Widget):
    """Widget whose content depends on the appearance alone."""

    appearance: reactive[Appearance] = reactive(Appearance())


class SnapshotWidget(AppearanceWidget):
    """Widget that draws a part of the newest snapshot."""

    snapshot: reactive[Snapshot | None] = reactive(None)


class SnapshotLines(SnapshotWidget):
    """Widget whose height follows its content; the screen is laid out anew only when the number of lines changes."""

    def __init__(self) -> None:
        super().__init__()
        self._written: tuple[Snapshot | None, Appearance, int] | None = None
        self._lines: list[Text] = []
        self._laid_out = 0
        """Number of lines for which the screen was laid out; limits may give the widget more lines, or fewer."""

    def lines(self, width: int) -> list[Text]:
        """Return all lines for a width in cells."""
        raise NotImplementedError

    def rewrite(self) -> None:
        """Draw anew after a change outside of snapshot, appearance and width."""
        self._written = None
        self.refresh(layout=True)

    def watch_snapshot(self) -> None:
        # Textual would keep the height of the first content.
        self.refresh(layout=len(self._write(self.size.width)) != self._laid_out)

    def get_content_height(self, _container: Size, _viewport: Size, width: int) -> int:
        self._laid_out = len(self._write(width))
        return self._laid_out

    def render(self) -> Text:
        return Text("\n", no_wrap=True, overflow="crop").join(self._write(self.size.width))

    def _write(self, width: int) -> list[Text]:
        written = self.snapshot, self.appearance, width
        if self._written is None or any(one is not other for one, other in zip(written, self._written, strict=True)):
            self._written, self._lines = written, self.lines(width)
        return self._lines
