"""First screen: the answer, the figures, every task, and the newest events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input, Static
from tfscale.console.engine.model import Snapshot
from tfscale.console.settings.view_state import View
from tfscale.console.transport.commands import FollowLog
from tfscale.console.tui.dialogs.column_picker import PickerScreen
from tfscale.console.tui.dialogs.sort_picker import SortPicker
from tfscale.console.tui.screens.base_screen import SnapshotScreen
from tfscale.console.tui.screens.heat_screen import HeatScreen
from tfscale.console.tui.widgets.appearance.region_frames import set_title
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.charts.heat_measures import MEASURES
from tfscale.console.tui.widgets.lifetime.end_pane import EndPane
from tfscale.console.tui.widgets.lifetime.last_output import LastOutput
from tfscale.console.tui.widgets.lifetime.start_strip import slowest_starting
from tfscale.console.tui.widgets.navigation.key_bar import KeyBar, Legend
from tfscale.console.tui.widgets.panes.cluster_summary import Metrics, Title
from tfscale.console.tui.widgets.panes.event_pane import EventPane
from tfscale.console.tui.widgets.panes.headline_pane import Headline
from tfscale.console.tui.widgets.panes.history_strip import HistoryStrip
from tfscale.console.tui.widgets.panes.input_line import InputLine
from tfscale.console.tui.widgets.side.side_panel import SidePanel
from tfscale.console.tui.widgets.table.culprit_pane import CulpritPane
from tfscale.console.tui.widgets.table.culprits import named_tasks
from tfscale.console.tui.widgets.table.filter_query import FilterQuery, filterable, parse
from tfscale.console.tui.widgets.table.row_order import GROUPINGS, USUAL_SORT, RowOrder
from tfscale.console.tui.widgets.table.task_columns import COLUMNS, USUAL, Column, Drawn, column_named, columns_with
from tfscale.console.tui.widgets.table.task_table import TaskTable
from tfscale.console.tui.widgets.task_readings import log_names
from tfscale.core.cluster.task import Task
from tfscale.core.errors import UsageError

_AROUND = 19
"""Lines beside the table's rows, with empty lines between the parts."""
_LOW = 18
"""Lines below which the legend goes and one event is shown, so that some rows are seen."""
_CARD = 8
"""Lines of the card of a run that is over, which has no place where it would hide a row: it is printed at the end."""
_AROUND_ALL = 23
"""Lines beside the table's rows with the filter and six events."""
_FRAMED = 30
"""Lines from which on the regions have frames, and the figures a strip of their history."""
_ROOMY, _TALL = 40, 48
"""Lines from which on the frames are whole, and from which on the strip is higher."""
_WIDE = 160
"""Cells from which on one task's numbers and log and the heat map are beside the table."""
_LONGEST_FILTER = 30
"""Characters of the filter that is shown beside the number of remaining tasks."""
_FIRST_SORTS = (USUAL_SORT, "lag", "task")
"""Sort orders that `s` offers before the columns from left to right."""
KEYS = (
    ("q", "quit"),
    ("enter", "task"),
    ("!", "culprit"),
    ("l", "log"),
    ("b", "stack"),
    ("r", "restart"),
    ("/", "filter"),
    ("s", "sort"),
    (":", "cmd"),
    ("v", "steps"),
    ("e", "events"),
    ("A", "advice"),
    ("space", "mark"),
    ("y", "copy"),
    ("o", "group"),
    ("c", "columns"),
    ("p", "pause"),
    ("?", "help"),
)


_WITHOUT = ("W", "restart without it")


class ClusterScreen(SnapshotScreen):
    """Screen of the whole cluster."""

    DEFAULT_CSS = """
    ClusterScreen { background: $background; padding: 0 1; }
    ClusterScreen Title, ClusterScreen Metrics, ClusterScreen KeyBar { height: 1; }
    ClusterScreen Headline { height: auto; min-height: 3; max-height: 4; margin: 1 0; }
    ClusterScreen CulpritPane { height: auto; margin: 0 0 1 0; }
    ClusterScreen HistoryStrip { height: 5; display: none; }
    ClusterScreen Legend, ClusterScreen LastOutput { height: 2; padding: 1 0 0 3; }
    ClusterScreen LastOutput { padding: 1 0 0 0; display: none; }
    ClusterScreen.starting LastOutput { display: block; }
    ClusterScreen.cramped EndPane.over { display: none; }
    ClusterScreen.starting Legend { display: none; }
    ClusterScreen TaskTable { scrollbar-size-vertical: 1; overflow-x: hidden; }
    ClusterScreen #regions { height: 1fr; }
    ClusterScreen #tasks { height: 3fr; }
    ClusterScreen EventPane { height: 1fr; min-height: 6; margin: 1 0; }
    ClusterScreen #wrong { height: 1; display: none; color: $warning; }
    ClusterScreen SidePanel { display: none; }
    ClusterScreen.short Headline, ClusterScreen.short CulpritPane { margin: 0; }
    ClusterScreen.short Legend { height: 1; padding: 0 0 0 3; }
    ClusterScreen.short LastOutput { height: 1; padding: 0; }
    ClusterScreen.short EventPane { margin: 0; min-height: 4; }
    ClusterScreen.low Headline { min-height: 1; }
    ClusterScreen.low Legend { display: none; }
    ClusterScreen.low EventPane { height: 2; min-height: 2; }

    ClusterScreen.framed { padding: 0; }
    ClusterScreen.framed > TabLine, ClusterScreen.framed > Title, ClusterScreen.framed > Metrics { margin: 0 1; }
    ClusterScreen.framed > KeyBar, ClusterScreen.framed > InputLine, ClusterScreen.framed > EndPane { margin: 0 1; }
    ClusterScreen.framed > Headline { margin: 1; }
    ClusterScreen.framed > CulpritPane { margin: 0 1 1 1; }
    ClusterScreen.framed.short > Headline, ClusterScreen.framed.short > CulpritPane { margin: 0 1; }
    ClusterScreen.framed HistoryStrip { display: block; }
    ClusterScreen.framed.roomy HistoryStrip { height: 6; }
    ClusterScreen.framed.tall HistoryStrip { height: 8; }
    ClusterScreen.framed #tasks, ClusterScreen.framed EventPane { border-top: solid $secondary 40%; }
    ClusterScreen.framed EventPane { margin: 0; min-height: 3; }
    ClusterScreen.framed.short EventPane { height: 3; }
    ClusterScreen.framed.short.tall EventPane { height: 8; }
    ClusterScreen #tasks, SidePanel > * { border-title-color: $secondary; }
    ClusterScreen.roomy #tasks, ClusterScreen.roomy EventPane, SidePanel > * { border: round $secondary 40%; }
    ClusterScreen.roomy EventPane { min-height: 5; }
    ClusterScreen.roomy.short EventPane { height: 5; }
    ClusterScreen.framed.wide SidePanel { display: block; }
    ClusterScreen #tasks:focus-within, SidePanel > *:focus { border-title-color: $accent; }
    ClusterScreen.framed #tasks:focus-within { border-top: solid $accent; }
    ClusterScreen.roomy #tasks:focus-within, SidePanel > *:focus { border: round $accent; }
    ClusterScreen.ascii EventPane, ClusterScreen.ascii.framed #tasks { border-top: ascii $secondary; }
    ClusterScreen.ascii.roomy #tasks, ClusterScreen.ascii.roomy EventPane, .ascii SidePanel > * {
        border: ascii $secondary;
    }
    ClusterScreen.ascii.framed #tasks:focus-within { border-top: ascii $accent; }
    ClusterScreen.ascii.roomy #tasks:focus-within, .ascii SidePanel > *:focus { border: ascii $accent; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "filter by words, or by columns: step>100", show=False),
        Binding("s", "sort", "choose the sort order; a click on a heading does too", show=False),
        Binding("i", "invert", "turn the order around", show=False),
        Binding("o", "group", "group by host, by role, not at all", show=False),
        Binding("c", "columns", "choose the columns", show=False),
        Binding("h", "heat", "all tasks or GPUs as a heat map", show=False),
        Binding("escape", "clear", "no filter, no marks", show=False),
        Binding("l", "log", "the log of the task; p pauses, G follows", show=False),
    ]

    class LogRequested(Message):
        """Request to read a task's log."""

        def __init__(self, task: Task) -> None:
            super().__init__()
            self.task = task

    class Viewed(Message):
        """Change of the view by the operator: columns, order, grouping, measure."""

        def __init__(self, view: View) -> None:
            super().__init__()
            self.view = view

    def __init__(
        self, snapshot: Snapshot | None, appearance: Appearance, follow_log: FollowLog, view: View | None = None
    ) -> None:
        super().__init__(snapshot, appearance)
        self._last_output = LastOutput(follow_log)
        self._end = EndPane()
        self.table = TaskTable()
        self.culprits = CulpritPane(self.table.bar_place)
        self.title_line = Title()
        self.legend = Legend()
        view = view or View()
        self.table.set_reactive(TaskTable.chosen_columns, view.columns or USUAL)
        self.table.set_reactive(TaskTable.order, _order(view))
        self._measure = next((name for name in MEASURES if name == view.measure), "lag")
        self._side = SidePanel(follow_log, self._measure)

    @property
    def page(self) -> str:
        return "cluster"

    @property
    def selected(self) -> tuple[Task, ...]:
        return self.table.selected

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns that can be chosen, with those of Keras's logs."""
        return columns_with(self._logs)

    @property
    def _logs(self) -> tuple[str, ...]:
        return log_names(self.snapshot.tasks) if self.snapshot else ()

    def rows_as_text(self) -> Sequence[str]:
        return [self.table.row_as_text(task) for task in self.selected]

    def compose(self) -> ComposeResult:
        bound = {"snapshot": SnapshotScreen.snapshot, "appearance": SnapshotScreen.appearance}
        yield self.tabs()
        yield self.title_line.data_bind(**bound)
        yield Headline(is_above_culprits=True).data_bind(**bound)
        yield self.culprits.data_bind(**bound)
        yield Metrics().data_bind(**bound)
        yield self._end.data_bind(SnapshotScreen.appearance)
        with Horizontal(id="regions"):
            with Vertical():
                yield HistoryStrip().data_bind(**bound)
                yield self.legend.data_bind(SnapshotScreen.appearance)
                # No bar of a starting cluster needs the legend.
                yield self._last_output.data_bind(**bound)
                with Vertical(id="tasks"):
                    yield self.table.data_bind(**bound)
                yield EventPane().data_bind(**bound)
            yield self._side.data_bind(**bound)
        yield Static(id="wrong", markup=False)
        hint = "words, or host:gpu07 state:running !flag:straggler step>100 time>80ms"
        keys = KeyBar(KEYS).data_bind(SnapshotScreen.appearance)
        yield InputLine(hint, keys, select_on_focus=False)
        yield keys

    def on_mount(self) -> None:
        self.table.focus()

    def on_resize(self) -> None:
        self._make_room()

    def watch_snapshot(self) -> None:
        self.set_class(self.snapshot is not None and slowest_starting(self.snapshot) is not None, "starting")
        self._make_room()
        self._show_selection()
        self._show_keys()
        self._show_beside()

    def on_task_table_resized(self) -> None:
        self.culprits.rewrite()

    def on_culprit_pane_resized(self) -> None:
        self._make_room()

    def on_task_table_moved(self) -> None:
        self._show_beside()

    def _show_beside(self) -> None:
        """Show beside the table the task that the operator has chosen, else the culprit, else that of the first row."""
        if self.has_class("wide") and self.snapshot is not None:
            named = () if self.table.chosen else named_tasks(self.snapshot)
            self._side.show(self.table.chosen or next(iter(named), self.table.cursor))

    def _show_keys(self) -> None:
        """Name the restart without a host where a host is lost that tasks can leave."""
        top = self.snapshot.findings.top if self.snapshot else None
        is_left = top is not None and top.kind == "cut_off" and self.app.check_action("order", ("restart_without",))
        bar = self.query_one(KeyBar)
        keys = [pair for pair in bar.keys if pair != _WITHOUT]
        if is_left:
            keys.insert(keys.index(("r", "restart")) + 1, _WITHOUT)
        bar.keys = tuple(keys)

    def _make_room(self) -> None:
        """Remove the empty lines if the tasks need them."""
        tasks = len(self.snapshot.tasks) if self.snapshot else 0
        pinned = self.culprits.size.height
        height = self.size.height - (pinned + 1 if pinned else 0)
        is_framed = self.size.height >= _FRAMED
        self.set_class(self.size.height < _LOW, "low")
        self.set_class(is_framed, "framed")
        self.set_class(self.size.height >= _ROOMY, "roomy")
        self.set_class(self.size.height >= _TALL, "tall")
        self.set_class(self.size.width >= _WIDE, "wide")
        if is_framed:
            # The strip and the frames, without the empty lines around the events.
            height -= self.query_one(HistoryStrip).outer_size.height + (1 if self.has_class("roomy") else -1)
        if self._end.card is not None:
            self.set_class(height - _AROUND - _CARD < tasks, "cramped")
            height -= 0 if self.has_class("cramped") else _CARD
        self.set_class(height - _AROUND < tasks, "short")
        # Lines that the rows do not need go to the events, and a filter does not change that.
        rows, region = max(tasks + 1, self.table.virtual_size.height), self.query_one("#tasks")
        frame = region.styles.gutter.height
        region.styles.height = rows + frame if rows <= height - _AROUND_ALL else "3fr"
        set_title(region, "tasks", tasks, "enter")
        self.query_one(EventPane).name_frame()

    def _show_selection(self) -> None:
        """Show how the table's content differs from all tasks in the usual order."""
        total, order = len(self.snapshot.tasks) if self.snapshot else 0, self.table.order
        parts = [f"{self.table.shown_count:,} of {total:,}{self._filter()}"] if self.table.row_filter.tests else []
        parts += [f"{len(self.table.marked):,} marked"] if self.table.marked else []
        parts += [f"by {order.group}"] if order.group else []
        parts += [f"sorted by {order.sort}"] if order.sort not in (USUAL_SORT, *self.table.columns) else []
        self.legend.status = ", ".join(parts)

    def _filter(self) -> str:
        """Return the filter's text if the input line does not show it."""
        field = self.query_one(InputLine)
        text = field.value.strip()
        if field.display or not text:
            return ""
        return f" with {text if len(text) <= _LONGEST_FILTER else f'{text[: _LONGEST_FILTER - 3]}...'}"

    def show_row(self, task: Task) -> None:
        """Put the cursor on a task, without the filter and the closed groups that hide it."""
        if not self.table.shows(task):
            self.query_one(InputLine).forget()
            self.table.row_filter = FilterQuery()
            self.table.order = replace(self.table.order, closed=frozenset())
        self.table.go_to(task)

    def on_task_table_marked(self) -> None:
        self._show_selection()

    def action_filter(self) -> None:
        self.query_one(InputLine).open()

    def on_input_changed(self, event: Input.Changed) -> None:
        wrong = self.query_one("#wrong", Static)
        try:
            self.table.row_filter = parse(event.value, self._logs)
            if not self.table.shown_count and _is_beginning(event.value, self._logs):
                self.table.row_filter = parse(event.value.rpartition(" ")[0], self._logs)
            wrong.display = False
        except UsageError as error:
            # An incomplete filter leaves the rows as the last valid one did.
            wrong.update(str(error))
            wrong.display = True
        self._show_selection()

    def on_input_submitted(self) -> None:
        self.query_one(InputLine).close()
        self._show_selection()
        self.table.focus()

    def action_clear(self) -> None:
        self.query_one(InputLine).forget()
        self.table.unmark()
        self.table.focus()

    def action_sort(self) -> None:
        """Have the sort order chosen; the order after the present one has the cursor."""
        others = (name for name in self.table.columns if column_named(name).drawn is Drawn.TEXT)
        names = [*_FIRST_SORTS, *(name for name in others if name not in _FIRST_SORTS)]
        self.app.push_screen(
            SortPicker([column_named(name) for name in names], self.table.order.sort, self.appearance), self._sorted
        )

    def _sorted(self, name: str | None) -> None:
        if name is not None:
            self.sort_by(name)

    def sort_by(self, name: str) -> None:
        """Sort by the column of this name, in its own direction."""
        self._arrange(replace(self.table.order, sort=name, is_reversed=False))

    def on_task_table_sorted(self, message: TaskTable.Sorted) -> None:
        if message.column == self.table.order.sort:
            self.action_invert()
        else:
            self.sort_by(message.column)

    def action_invert(self) -> None:
        self._arrange(replace(self.table.order, is_reversed=not self.table.order.is_reversed))

    def action_group(self) -> None:
        self.group_by(GROUPINGS[(GROUPINGS.index(self.table.order.group) + 1) % len(GROUPINGS)])

    def group_by(self, group: str) -> None:
        """Group the tasks, one of `GROUPINGS`."""
        self._arrange(replace(self.table.order, group=group, closed=frozenset()))

    def _arrange(self, order: RowOrder) -> None:
        self.table.order = order
        self._make_room()
        self._show_selection()
        self._post_view()

    def _post_view(self) -> None:
        order = self.table.order
        chosen = None if self.table.chosen_columns == USUAL else self.table.chosen_columns
        self.post_message(self.Viewed(View(chosen, order.sort, order.is_reversed, order.group, measure=self._measure)))

    def action_columns(self) -> None:
        self.app.push_screen(
            PickerScreen(self.columns, self.table.chosen_columns, self.table.columns, self.appearance, self._pick)
        )

    def _pick(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Choose columns, and return those that fit."""
        self.table.chosen_columns = columns
        self.culprits.rewrite()
        self._post_view()
        return self.table.columns

    def action_heat(self) -> None:
        self.app.push_screen(
            HeatScreen(self.snapshot, self.appearance, self._measure, self.table.cursor, self._measured)
        )

    def _measured(self, measure: str) -> None:
        """Keep the heat map's measure."""
        self._measure = measure
        self._side.measure(measure)
        self._post_view()

    def action_log(self) -> None:
        if self.table.cursor is not None:
            self.post_message(self.LogRequested(self.table.cursor))


def _is_beginning(text: str, logs: Sequence[str]) -> bool:
    """Decide whether the last word may become a term with a column; until then the filter ignores it."""
    word = text.lower().rpartition(" ")[2].removeprefix("!")
    return any(name.startswith(word) for name in filterable(logs))


def _order(view: View) -> RowOrder:
    """Return the remembered order, if its column still exists."""
    sort = view.sort if view.sort in {column.name for column in COLUMNS} else USUAL_SORT
    return RowOrder(sort, bool(view.is_reversed), view.group if view.group in GROUPINGS else "")
