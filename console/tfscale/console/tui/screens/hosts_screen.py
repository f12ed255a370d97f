"""Hosts page: the hosts with their tasks, spares and cordons, the links between them, and who else uses them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static
from tfscale.console.engine.model import Snapshot
from tfscale.console.tui.screens.base_screen import SnapshotScreen
from tfscale.console.tui.widgets.appearance.ascii_spelling import spelled
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.hosts.host_columns import core_words
from tfscale.console.tui.widgets.hosts.host_facts import HostFacts, Hosts, hosts_of
from tfscale.console.tui.widgets.hosts.host_table import HostTable
from tfscale.console.tui.widgets.hosts.link_matrix import link_words, matrix
from tfscale.console.tui.widgets.navigation.key_bar import KeyBar
from tfscale.console.tui.widgets.panes.cluster_summary import Title
from tfscale.console.tui.widgets.panes.headline_pane import Headline
from tfscale.core.cluster.task import Task

_FRAMED = 20
"""Lines of a screen from which on the regions have frames."""
_MOST_LINKS = 3
"""Links of one host that are told in words."""
KEYS = (
    ("esc", "back"),
    ("enter", "task"),
    ("W", "restart without it"),
    ("U", "uncordon"),
    ("j k", "move"),
    ("y", "copy"),
    ("?", "help"),
)


class HostsScreen(SnapshotScreen):
    """Table of the hosts, facts about the one under the cursor, and the matrix of their links."""

    DEFAULT_CSS = """
    HostsScreen { background: $background; padding: 0 1; }
    HostsScreen Title, HostsScreen KeyBar { height: 1; }
    HostsScreen Headline { height: auto; max-height: 3; }
    HostsScreen #parts { height: 1fr; }
    HostsScreen .region { border: round $secondary 60%; border-title-color: $foreground; padding: 0 1; }
    HostsScreen .region { border-subtitle-color: $secondary; }
    HostsScreen.narrow { padding: 0; }
    HostsScreen.bare .region { border: none; padding: 0; }
    HostsScreen.ascii .region { border: ascii $secondary; }
    HostsScreen.ascii.bare .region { border: none; }
    HostsScreen #hosts { height: auto; }
    HostsScreen HostTable { scrollbar-size-vertical: 1; overflow-x: hidden; }
    HostsScreen Static { height: auto; }
    HostsScreen #links { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "app.pop_screen", "back", show=False)]

    def __init__(self, snapshot: Snapshot | None, appearance: Appearance, address: str = "") -> None:
        """Show the hosts; the cursor begins on the host of this address, if there is one."""
        super().__init__(snapshot, appearance)
        self.table = HostTable(address)
        self._facts = Static(id="facts", markup=False)
        self._links = Static(id="links", classes="region", markup=False)
        self._links.border_title = "links, share of the time in which they are busy: from row to column"
        self._hosts = Hosts()
        self._written: dict[Static, Text] = {}
        """Text of each part, which is drawn only if it changes."""

    @property
    def page(self) -> str:
        return "hosts"

    @property
    def selected(self) -> tuple[Task, ...]:
        return self.table.cursor.tasks if self.table.cursor else ()

    @property
    def host(self) -> str:
        return self.table.cursor.address if self.table.cursor else ""

    def rows_as_text(self) -> Sequence[str]:
        return (self.table.row_as_text(),) if self.table.cursor else ()

    def compose(self) -> ComposeResult:
        bound = {"snapshot": SnapshotScreen.snapshot, "appearance": SnapshotScreen.appearance}
        yield self.tabs()
        yield Title().data_bind(**bound)
        yield Headline().data_bind(**bound)
        with Vertical(id="parts"):
            with Vertical(id="hosts", classes="region"):
                yield self.table.data_bind(SnapshotScreen.appearance)
                yield self._facts
            yield self._links
        yield KeyBar(KEYS).data_bind(SnapshotScreen.appearance)

    def on_mount(self) -> None:
        super().on_mount()
        self.table.focus()
        self.redraw()

    def on_resize(self) -> None:
        # Padding wider than the screen would reach beyond its edge.
        self.set_class(self.app.size.width <= 2, "narrow")
        self.redraw()

    def redraw(self) -> None:
        if self.snapshot is None:
            return
        self._hosts = hosts_of(self.snapshot, self.host)
        self._show_keys()
        self.set_class(self.size.height < _FRAMED, "bare")
        if (region := self.query_one("#hosts")).border_title != self._hosts.title:
            region.border_title = self._hosts.title
        self.table.show(self._hosts)
        self._show_cursor()

    def _show_keys(self) -> None:
        """Name the keys of the orders only where they do something."""
        offered = {"W": "restart_without", "U": "uncordon"}
        self.query_one(KeyBar).keys = tuple(
            (key, meaning)
            for key, meaning in KEYS
            if key not in offered or self.app.check_action("order", (offered[key],))
        )

    def on_host_table_moved(self) -> None:
        self._show_cursor()

    def _show_cursor(self) -> None:
        """Show what belongs to the host under the cursor, in the lines that the table leaves."""
        edges = 0 if self.has_class("bare") else 2
        room = self.query_one("#parts").size.height
        width = self.size.width - 2 - 2 * edges
        facts = list(self._words(self.table.cursor, width))[: max(0, (room - 8) // 3)]
        rows = len(self._hosts.facts) + 1
        least = min(rows, max(3, room // 2 - len(facts)))
        lines = room - least - len(facts) - 2 * edges
        self._links.display = has_matrix = lines >= 3 and bool(self._hosts.links)
        drawn = matrix(self._hosts, self.table.cursor, width, lines, self.appearance) if has_matrix else []
        self.table.styles.height = min(rows, max(3, room - len(facts) - len(drawn) - (2 * edges if drawn else edges)))
        for part, lines_of_part in ((self._facts, facts), (self._links, drawn)):
            text = spelled(Text("\n").join(lines_of_part), self.appearance)
            before = self._written.get(part)
            if text != before:
                self._written[part] = text
                part.update(text, layout=before is None or before.plain.count("\n") != text.plain.count("\n"))

    def _words(self, facts: HostFacts | None, width: int) -> Iterator[Text]:
        if facts is None:
            return
        palette = self.appearance.palette
        yield Text()
        words = [f"cordoned: {facts.cordon}"] if facts.cordon else []
        words += filter(None, [core_words(facts)])
        if not facts.views:
            words.append("holds no task" + (", and is used when a host fails" if facts.is_spare else ""))
        links = [link for ends, link in self._hosts.links.items() if facts.address in ends]
        links.sort(key=lambda link: (link.trouble is None, -link.own.busy))
        words += [link_words(link, facts.address) for link in links[:_MOST_LINKS]]
        for number, text in enumerate(words):
            line = Text()
            line.append(
                f"  {facts.address}  " if not number else " " * (len(facts.address) + 4), f"bold {palette.text}"
            )
            line.append(text, style=palette.dim).truncate(width, overflow="ellipsis")
            yield line
