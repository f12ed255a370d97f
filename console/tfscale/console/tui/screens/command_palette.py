"""Command palette (ctrl+p): every key's action, the sort orders, the themes, and every task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from textual.app import App
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.screen import Screen
from tfscale.console.tui.dialogs.help_screen import own_bindings
from tfscale.console.tui.screens.cluster_screen import ClusterScreen
from tfscale.console.tui.widgets.appearance.theme import PALETTES
from tfscale.console.tui.widgets.navigation.key_names import key_text
from tfscale.console.tui.widgets.table.task_columns import Drawn

Command = tuple[str, str, Callable[[], object]]
"""Name, help text and action."""


class ConsoleCommands(Provider):
    """Commands of the screen from which the palette was opened."""

    async def discover(self) -> Hits:
        for name, help_text, call in self._commands():
            yield DiscoveryHit(name, call, help=help_text)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name, help_text, call in (*self._commands(), *self._tasks()):
            if (score := matcher.match(name)) > 0:
                yield Hit(score, matcher.highlight(name), call, help=help_text)

    def _commands(self) -> Iterator[Command]:
        named = set()
        # Cursor movements stand last: the keys are quicker.
        bound = sorted(own_bindings(self.screen), key=lambda binding: not isinstance(binding[1].node, App | Screen))
        for key, active in bound:
            name = active.binding.description
            if name not in named:
                named.add(name)
                call = partial(self.app.run_action, active.binding.action, active.node)
                yield name, f"key {key_text(key)}", call
        if isinstance(self.screen, ClusterScreen):
            for column in self.screen.columns:
                if column.drawn is Drawn.TEXT:
                    yield f"sort by {column.name}", column.description, partial(self.screen.sort_by, column.name)
        for theme in PALETTES:
            yield f"theme {theme.removeprefix('tfscale-')}", "", partial(setattr, self.app, "theme", theme)

    def _tasks(self) -> Iterator[Command]:
        if isinstance(self.screen, ClusterScreen) and self.screen.snapshot:
            for view in self.screen.snapshot.tasks:
                yield f"go to {view.task}", view.host, partial(self.screen.table.go_to, view.task)
