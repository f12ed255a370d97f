"""Help: the keys that are bound at this moment, and the colours of a step's parts."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import VerticalScroll
from textual.dom import DOMNode
from textual.keys import key_to_character
from textual.screen import Screen
from textual.widgets import Static
from tfscale.console.tui.dialogs.dialog import Page
from tfscale.console.tui.widgets.appearance.text_width import wrap_hanging
from tfscale.console.tui.widgets.appearance.theme import Appearance

_NAMES = {"escape": "esc", "pageup": "page up", "pagedown": "page down", "slash": "/", "plus": "+", "minus": "-"}
_PHASES = (
    ("update", "all-reduced until variables are updated"),
    ("host", "Python, callbacks, dispatch"),
    ("input", "waiting for the next batch"),
    ("compute", "forward and backward pass"),
    ("transfer", "the all-reduce itself, the same for all"),
    ("wait", "in the all-reduce, waiting for the slowest"),
)

_WIDEST, _EDGES = 76, 8
"""Cells of the page; cells of its border, padding and scrollbar."""

KeyPairs = tuple[tuple[str, str], ...]
"""Pairs of a key and its action."""


def own_bindings(screen: Screen[object]) -> list[tuple[str, ActiveBinding]]:
    """Return this program's bindings on a screen at this moment, by key, without Textual's own."""
    return [(key, active) for key, active in screen.active_bindings.items() if _is_own(active)]


def _is_own(active: ActiveBinding) -> bool:
    key, action = active.binding.key, active.binding.action
    for kind in type(active.node).__mro__:
        if kind.__module__.startswith("tfscale"):
            own = [binding for binding in vars(kind).get("BINDINGS", ()) if isinstance(binding, Binding)]
            if any(key in binding.key.split(",") and action == binding.action for binding in own):
                return True
    return False


def keys_of(screen: Screen[object]) -> tuple[KeyPairs, KeyPairs]:
    """Return the keys of this screen, and the keys that work on all screens."""
    own: dict[tuple[DOMNode, str], list[str]] = {}
    meanings: dict[tuple[DOMNode, str], str] = {}
    for key, active in own_bindings(screen):
        does = (active.node, active.binding.action)
        own.setdefault(does, []).append(key_text(key))
        meanings[does] = active.binding.description
    rows = [(isinstance(does[0], App), " ".join(keys), meanings[does]) for does, keys in own.items()]
    return (
        tuple((keys, meaning) for is_apps, keys, meaning in rows if not is_apps),
        tuple((keys, meaning) for is_apps, keys, meaning in rows if is_apps),
    )


def key_text(key: str) -> str:
    """Return a key as it is printed on the keyboard, in ASCII."""
    character = key_to_character(key)
    return _NAMES.get(key) or (character if character and character.isprintable() and character != " " else key)


class HelpScreen(Page):
    """Page that any of the usual keys closes."""

    DEFAULT_CSS = "HelpScreen > .frame { width: 76; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss", "back", show=False),
    ]

    def __init__(self, appearance: Appearance, keys: tuple[KeyPairs, KeyPairs]) -> None:
        super().__init__(appearance)
        self._keys = keys

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="frame"):
            yield Static(self._text())

    def on_resize(self) -> None:
        self.query_one(Static).update(self._text())

    def _text(self) -> Text:
        width = min(_WIDEST, self.app.size.width * 95 // 100) - _EDGES
        palette = self._look.palette
        own, everywhere = self._keys
        text = Text()
        sections = (("Keys here", own), ("Everywhere", everywhere), ("A step, from left to right", _PHASES))
        for title, rows in sections:
            text.append(f"{title}\n", style=f"bold {palette.text}")
            for name, meaning in rows:
                line = Text(f"  {name:<13} ", style=palette.parts.get(name, palette.parts["transfer"]))
                line.append(meaning, style=palette.dim)
                text.append_text(Text("\n").join([*wrap_hanging(line, width, 16), Text()]))
        text.rstrip()
        return text
