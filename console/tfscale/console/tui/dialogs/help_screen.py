"""Help: the colours of a step's parts, and in groups the keys that are bound at this moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import VerticalScroll
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widgets import Static
from tfscale.console.tui.dialogs.dialog import Page
from tfscale.console.tui.widgets.appearance.text_width import wrap_hanging
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.navigation.key_names import key_text

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

_HERE, _EVERYWHERE = "On this page", "Everywhere"
_OF_APP = {"open": "Pages", "order": "Act on tasks"}
"""Groups of the program's own keys by their action."""

KeyPairs = tuple[tuple[str, str], ...]
"""Pairs of a key and its action."""
Groups = Mapping[str, KeyPairs]
"""Keys by the name of their group."""


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


def keys_of(screen: Screen[object]) -> Groups:
    """Return the keys that work on a screen at this moment, in groups."""
    own: dict[tuple[DOMNode, str], list[str]] = {}
    meanings: dict[tuple[DOMNode, str], str] = {}
    for key, active in own_bindings(screen):
        does = (active.node, active.binding.action)
        own.setdefault(does, []).append(key_text(key))
        meanings[does] = active.binding.description
    groups: dict[str, list[tuple[str, str]]] = {name: [] for name in (_HERE, *_OF_APP.values(), _EVERYWHERE)}
    for does, keys in own.items():
        node, action = does
        is_apps = isinstance(node, App)
        group = _OF_APP.get(action.partition("(")[0], _EVERYWHERE) if is_apps else _HERE
        groups[group].append((" ".join(keys), meanings[does]))
    return {name: tuple(pairs) for name, pairs in groups.items() if pairs}


class HelpScreen(Page):
    """Page that any of the usual keys closes."""

    DEFAULT_CSS = "HelpScreen > .frame { width: 76; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss", "back", show=False),
    ]

    def __init__(self, appearance: Appearance, keys: Groups) -> None:
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
        text = Text()
        for title, rows in (("A step, from left to right", _PHASES), *self._keys.items()):
            text.append(f"{title}\n", style=f"bold {palette.text}")
            for name, meaning in rows:
                line = Text(f"  {name:<13} ", style=palette.parts.get(name, palette.parts["transfer"]))
                line.append(meaning, style=palette.dim)
                text.append_text(Text("\n").join([*wrap_hanging(line, width, 16), Text()]))
            text.append("\n")
        text.rstrip()
        return text
