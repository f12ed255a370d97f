"""What the keys and the signs mean."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static
from tfscale.console.widgets.look import Look

_KEYS = (
    ("up down j k", "move; the mouse selects too"),
    ("enter", "a task's numbers, host and log"),
    ("l", "the log of the task; p pauses, G follows"),
    ("b", "on the page of a task: the Python stacks of its threads"),
    ("space", "mark, so that a command takes several"),
    ("r   x   S", "restart, stop, start; always asks first"),
    ("/", "filter by task, host, state or diagnosis"),
    ("s", "sort by task, lag, state"),
    ("p", "hold the picture still"),
    ("R", "record to a file; again: end it"),
    ("t", "dark or light"),
    ("esc   q", "back, quit"),
)
_REPLAY = (
    ("p   [   ]", "go on or stand still; a second back, forth"),
    ("+   -", "faster, slower"),
    ("n   N", "to the next event, the one before"),
    (":", "to a time: 12:03:20, +90s, -5m, 50%"),
)
_PHASES = (
    ("update", "all-reduced until variables are updated"),
    ("host", "Python, callbacks, dispatch"),
    ("input", "waiting for the next batch"),
    ("compute", "forward and backward pass"),
    ("transfer", "the all-reduce itself, the same for all"),
    ("wait", "in the all-reduce, waiting for the slowest"),
)


class HelpScreen(ModalScreen[None]):
    """Closed by any of the usual keys."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: $background 60%; }
    HelpScreen > VerticalScroll {
        width: 66; max-width: 95%; height: auto; max-height: 95%;
        background: $panel; border: round $secondary; padding: 0 2;
    }
    HelpScreen.ascii > VerticalScroll { border: ascii $secondary; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "dismiss", show=False)]

    def __init__(self, look: Look) -> None:
        super().__init__(classes="ascii" if look.glyphs.border == "ascii" else "")
        self._look = look

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(self._text())

    def _text(self) -> Text:
        palette = self._look.palette
        text = Text()
        for title, rows in (("Keys", _KEYS), ("In a replay", _REPLAY), ("A step, from left to right", _PHASES)):
            text.append(f"{title}\n", style=f"bold {palette.text}")
            for name, meaning in rows:
                text.append(f"  {name:<13}", style=palette.parts.get(name, palette.parts["transfer"]))
                text.append(f"{meaning}\n", style=palette.dim)
        text.rstrip()
        return text
