"""Commands by name, for the command line: pages, tasks, sort orders, groups, themes, and orders to tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from textual.app import App
from tfscale.console.tui.dialogs.help_screen import own_bindings
from tfscale.console.tui.screens.cluster_screen import ClusterScreen
from tfscale.console.tui.widgets.appearance.theme import PALETTES
from tfscale.console.tui.widgets.table.row_order import GROUPINGS
from tfscale.console.tui.widgets.table.task_columns import Drawn

_OWN = {"quit": "q", "help": "help", "record": "record", "pause": "pause", "save_screen": "save"}
"""Names of the program's own actions without an argument."""


class NamedCommand(NamedTuple):
    """Command with its name, a few words about it, and what it does."""

    name: str
    about: str
    call: Callable[[], object]


def commands_of(app: App[Any]) -> list[NamedCommand]:
    """Return the commands of the page that is open, those that lead to tasks last."""
    commands = list(_of_keys(app))
    cluster = next(screen for screen in app.screen_stack if isinstance(screen, ClusterScreen))
    return [*commands, *_of_cluster(app, cluster)]


def found(commands: Sequence[NamedCommand], typed: str) -> Sequence[NamedCommand]:
    """Return the commands whose name is typed, begins so, or has a word that does, in this order."""
    words = _plain(typed)
    if not words:
        return commands
    ranked = [(_rank(_plain(command.name), words), command) for command in commands]
    return [command for rank, command in sorted(ranked, key=lambda each: each[0]) if rank < _NO_MATCH]


_NO_MATCH = 3


def _rank(name: str, words: str) -> int:
    if name == words:
        return 0
    if name.startswith(words):
        return 1
    return 2 if f" {words}" in name else _NO_MATCH


def _plain(text: str) -> str:
    """Return text as it is compared: `worker:50` and `worker 50` are the same."""
    return " ".join(text.lower().replace(":", " ").split())


def _of_keys(app: App[Any]) -> Iterator[NamedCommand]:
    """Yield pages, orders and the program's own commands, as far as their keys work now."""
    named = set()
    for _, active in own_bindings(app.screen):
        action, _, argument = active.binding.action.partition("(")
        name = argument.strip("')") if action in ("open", "order") else _OWN.get(action, "")
        if name and name not in named and isinstance(active.node, App):
            named.add(name)
            call = partial(app.run_action, active.binding.action, app)
            yield NamedCommand(name.replace("_", " "), active.binding.description, call)


def _of_cluster(app: App[Any], cluster: ClusterScreen) -> Iterator[NamedCommand]:
    for column in cluster.columns:
        if column.drawn is Drawn.TEXT:
            yield NamedCommand(f"sort {column.name}", column.description, _at_home(app, cluster.sort_by, column.name))
    for group in GROUPINGS:
        name = group or "nothing"
        yield NamedCommand(f"group {name}", f"tasks by {name}", _at_home(app, cluster.group_by, group))
    for theme in PALETTES:
        name = theme.removeprefix("tfscale-")
        yield NamedCommand(f"theme {name}", "colours of the screen", partial(setattr, app, "theme", theme))
    for view in cluster.snapshot.tasks if cluster.snapshot else ():
        yield NamedCommand(str(view.task), view.host, _at_home(app, cluster.table.go_to, view.task))


def _at_home(app: App[Any], act: Callable[[Any], object], argument: object) -> Callable[[], object]:
    """Return the action, taken on the first page."""

    def act_at_home() -> None:
        while len(app.screen_stack) > 1 and not isinstance(app.screen, ClusterScreen):
            app.pop_screen()
        act(argument)

    return act_at_home
