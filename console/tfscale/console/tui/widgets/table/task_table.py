"""Task table, drawn line by line (Line API): a thousand rows cost no more than the ten that are visible."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from tfscale.console.engine.model import Snapshot
from tfscale.console.tui.widgets.appearance.theme import Appearance, style
from tfscale.console.tui.widgets.base_widgets import TaskOpened
from tfscale.console.tui.widgets.table.column_layout import layout, longest_texts
from tfscale.console.tui.widgets.table.culprit_pane import BarPlace
from tfscale.console.tui.widgets.table.filter_query import FilterQuery
from tfscale.console.tui.widgets.table.row_drawing import MARGIN, RowDrawing, scene_of
from tfscale.console.tui.widgets.table.row_order import Key, Row, RowGroup, RowOrder, TaskRow, arrange, is_by_number
from tfscale.console.tui.widgets.table.task_columns import USUAL, Drawn, usual
from tfscale.console.tui.widgets.task_readings import log_names
from tfscale.core.cluster.task import Task

_FAR = 1_000_000
_AT_ONCE = 12
"""Lines redrawn in one go. A key waits for at most these."""


_Appearance = tuple[Key, bool, bool]
"""Row, whether the cursor is on it, and whether it is marked."""


class TaskTable(ScrollView, can_focus=True):
    """Table with one row a task, below fixed headings."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "the task above; the mouse selects too", show=False),
        Binding("down,j", "move(1)", "the task below", show=False),
        Binding("pageup", "page(-1)", "a page up", show=False),
        Binding("pagedown", "page(1)", "a page down", show=False),
        Binding("home,g", f"move(-{_FAR})", "the first task", show=False),
        Binding("end,G", f"move({_FAR})", "the last task", show=False),
        Binding("enter", "choose", "the task's numbers, host and log; a group: close or open it", show=False),
        Binding("space", "mark", "mark, so that a command takes several", show=False),
        Binding("a", "mark_all", "mark all that are shown, or none of them", show=False),
        Binding("left", "fold(True)", "close the group", show=False),
        Binding("right", "fold(False)", "open the group", show=False),
    ]

    snapshot: reactive[Snapshot | None] = reactive(None, repaint=False)
    appearance: reactive[Appearance] = reactive(Appearance())
    row_filter: reactive[FilterQuery] = reactive(FilterQuery())
    order: reactive[RowOrder] = reactive(RowOrder())
    chosen_columns: reactive[tuple[str, ...]] = reactive(USUAL)
    """Names of the columns that the operator has chosen."""

    class Sorted(Message):
        """Click on the heading of a column."""

        def __init__(self, column: str) -> None:
            super().__init__()
            self.column = column

    class Marked(Message):
        """Change of the set of marked tasks."""

    class Moved(Message):
        """Move of the cursor by the operator."""

    class Resized(Message):
        """Change of the table's size, and with it of the place of the bars."""

    def __init__(self) -> None:
        super().__init__()
        self.marked: set[Task] = set()
        self._key: Key | None = None
        self._is_chosen = False
        """Whether the operator has moved the cursor; until then it is on the first row, whoever that is."""
        self._rows: list[Row] = []
        self._at: dict[Key, int] = {}
        self._places: dict[Task, int] = {}
        """Places of the tasks in the present order, also of those that a filter hides."""
        self._drawing = RowDrawing(self._visible_tasks)
        self._drawn: dict[_Appearance, Strip] = {}
        self._earlier: dict[_Appearance, Strip] = {}
        """Lines drawn from the previous snapshot, for the rows below `_until`."""
        self._until = _FAR
        self._drawn_as: tuple[object, ...] = ()

    def bar_place(self) -> BarPlace | None:
        """Return where the bars of the steps are; None while there is no room for any."""
        return self._drawing.bar_place()

    @property
    def cursor(self) -> Task | None:
        """Task under the cursor; None on a group's heading."""
        return self._key if isinstance(self._key, Task) else None

    @property
    def chosen(self) -> Task | None:
        """Task onto which the operator has moved the cursor."""
        return self.cursor if self._is_chosen else None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that fit, from left to right."""
        return tuple(placed.column.name for placed in self._drawing.placed)

    @property
    def shown_count(self) -> int:
        """Number of tasks that pass the filter."""
        return len({task for row in self._rows for task in row.tasks})

    @property
    def selected(self) -> tuple[Task, ...]:
        """Marked tasks, else the task under the cursor, or all tasks of the group under it."""
        views = self.snapshot.tasks if self.snapshot else ()
        row = self._under_cursor
        chosen = self.marked or (row.tasks if row else ())
        return tuple(view.task for view in views if view.task in chosen)

    def watch_snapshot(self) -> None:
        self._arrange()

    def watch_appearance(self) -> None:
        self._arrange()

    def watch_row_filter(self) -> None:
        self._arrange()

    def watch_order(self, before: RowOrder, after: RowOrder) -> None:
        if (before.sort, before.is_reversed) != (after.sort, after.is_reversed):
            self._places = {}
        self._arrange()
        if (before.sort, before.is_reversed, before.group) != (
            after.sort,
            after.is_reversed,
            after.group,
        ) and self._rows:
            # A new order is of interest from its top.
            self._move_to(0)

    def watch_chosen_columns(self) -> None:
        self._arrange()

    def on_resize(self) -> None:
        self._arrange()
        self.post_message(self.Resized())

    def _arrange(self) -> None:
        snapshot = self.snapshot
        if snapshot is None:
            return
        drawing, order = self._drawing, self.order
        scene = scene_of(snapshot, self.appearance, with_devices="device" in self.columns)
        before = self._at.get(self._key, 0) if self._key is not None else 0
        self._rows = arrange(snapshot.tasks, self.row_filter, order, scene, self._places)
        self._at = {row.key: index for index, row in enumerate(self._rows)}
        if is_by_number(order):
            self._places |= {key: index for key, index in self._at.items() if isinstance(key, Task)}
        width = self.size.width
        # The scrollbar covers the last cell.
        room = width - MARGIN - (len(self._rows) + 1 > self.size.height)
        chosen = usual(snapshot.tasks) if self.chosen_columns == USUAL else self.chosen_columns
        groups = [row.name for row in self._rows if isinstance(row, RowGroup)] if order.group else None
        placed = layout(room, chosen, longest_texts(snapshot.tasks, scene, groups), log_names(snapshot.tasks))
        drawing.begin(snapshot, scene, placed, self.appearance, order)
        self.virtual_size = Size(width, len(self._rows) + 1)
        self._keep_cursor(before)
        self._draw()

    def _draw(self) -> None:
        """Redraw all lines, in portions if only numbers have changed, so that keys are answered in between."""
        drawing = self._drawing
        drawn_as = (self.size, self.appearance, drawing.scale, drawing.placed, list(self._at))
        is_same, self._drawn_as = drawn_as == self._drawn_as, drawn_as
        is_late = self._until < _FAR
        self._earlier = ({**self._earlier, **self._drawn} if is_late else self._drawn) if is_same else {}
        self._drawn = {}
        self._until = 0 if is_same else _FAR
        if not is_same:
            self.refresh()
        elif not is_late:
            self._draw_on()

    def _draw_on(self) -> None:
        if self._until < self.size.height:
            self.refresh(Region(0, self._until, self.size.width, _AT_ONCE))
            self._until += _AT_ONCE
            self.call_after_refresh(self._draw_on)
        else:
            self._until = _FAR

    def _keep_cursor(self, before: int) -> None:
        """Keep the cursor on its row wherever the row moved, or at its old position if the row is gone."""
        if not self._rows:
            self._key = None
            return
        if not self._is_chosen:
            before = 0
        if self._key not in self._at or not self._is_chosen:
            self._key = self._rows[min(before, len(self._rows) - 1)].key
        after = self._at[self._key]
        if self.scroll_offset.y and after != before:
            # After scrolling, the operator reads this row; without scrolling, the top of the table.
            self.scroll_to(y=max(0, self.scroll_offset.y + after - before), animate=False, force=True)
        self._show_cursor(after)

    def _show_cursor(self, index: int) -> None:
        """Scroll as far as the row with the cursor needs: a key must not act on what nobody sees."""
        # The headings cover the first visible line.
        self.scroll_to_region(Region(0, index, 1, 2), animate=False, force=True)

    @property
    def _under_cursor(self) -> Row | None:
        return self._row_at(self._at.get(self._key, -1)) if self._key is not None else None

    def _visible_tasks(self) -> list[Task]:
        first = self.scroll_offset.y
        return [row.key for row in self._rows[first : first + self.size.height] if isinstance(row, TaskRow)]

    def _row_at(self, index: int) -> Row | None:
        return self._rows[index] if 0 <= index < len(self._rows) else None

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y == 0:
            blank = style(None, self.appearance.palette.background)
            return Strip(self._drawing.headings()).adjust_cell_length(width, blank)
        row = self._row_at(self.scroll_offset.y + y - 1)
        if row is None:
            return Strip.blank(width, style(None, self.appearance.palette.background))
        key = row.key, row.key == self._key, all(task in self.marked for task in row.tasks)
        strip = self._drawn.get(key) or (self._earlier.get(key) if y >= self._until else None)
        if strip is None:
            strip = self._drawn[key] = self._drawing.row(row, width, is_cursor=key[1], is_marked=key[2])
        return strip

    def check_action(self, action: str, _parameters: tuple[object, ...]) -> bool | None:
        """Disable closing and opening while there are no groups."""
        return action != "fold" or bool(self.order.group)

    def action_move(self, by: int) -> None:
        if self._key is not None:
            self._move_to(max(0, min(len(self._rows) - 1, self._at[self._key] + by)))

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(1, self.size.height - 2))

    def _move_to(self, index: int) -> None:
        before = self._at.get(self._key, index) if self._key is not None else index
        self._key, self._is_chosen = self._rows[index].key, True
        for line in (before, index):
            self.refresh_line(line + 1)
        self._show_cursor(index)
        self.post_message(self.Moved())

    def shows(self, task: Task) -> bool:
        """Decide whether the task has a row: no filter and no closed group hides it."""
        return task in self._at

    def go_to(self, task: Task) -> None:
        """Put the cursor on a task, if it is shown."""
        if task in self._at:
            self._move_to(self._at[task])

    def neighbour(self, task: Task, by: int) -> Task:
        """Return the task of the row `by` rows below, around the end; the task itself where it is not shown."""
        tasks = [row.key for row in self._rows if isinstance(row, TaskRow)]
        return tasks[(tasks.index(task) + by) % len(tasks)] if task in tasks else task

    def row_as_text(self, task: Task) -> str:
        """Return the texts of a task's row, without bars."""
        snapshot = self.snapshot
        if snapshot is None:
            return str(task)
        columns = [placed.column for placed in self._drawing.placed if placed.column.drawn is Drawn.TEXT]
        view, scene = snapshot.view(task), self._drawing.scene
        return "  ".join(filter(None, [column.cell(view, scene)[0].strip() for column in columns]))

    def action_mark(self) -> None:
        row = self._under_cursor
        if row is not None:
            self._mark(row.tasks)
            self.action_move(1)

    def action_mark_all(self) -> None:
        """Mark all shown tasks, or unmark them if all are marked."""
        self._mark(tuple(dict.fromkeys(task for row in self._rows for task in row.tasks)))

    def _mark(self, tasks: tuple[Task, ...]) -> None:
        if self.marked.issuperset(tasks):
            self.marked.difference_update(tasks)
        else:
            self.marked.update(tasks)
        self.post_message(self.Marked())
        self.refresh()

    def unmark(self) -> None:
        """Unmark all tasks."""
        self.marked.clear()
        self.post_message(self.Marked())
        self.refresh()

    def action_choose(self) -> None:
        if isinstance(self._key, Task):
            self.post_message(TaskOpened(self._key))
        elif self._key is not None:
            self.action_fold(self._key not in self.order.closed)

    def action_fold(self, is_closed: bool) -> None:
        """Close or open the group under the cursor; from a task, go to the heading of its group first."""
        index = self._at.get(self._key, -1) if self._key is not None else -1
        group = next((row for row in reversed(self._rows[: index + 1]) if isinstance(row, RowGroup)), None)
        if group is None:
            return
        if self._key != group.key:
            if is_closed:
                self._move_to(self._at[group.key])
            return
        closed = self.order.closed | {group.name} if is_closed else self.order.closed - {group.name}
        self.order = replace(self.order, closed=closed)

    def on_click(self, event: events.Click) -> None:
        if event.y == 0:
            if (column := self._column_at(event.x)) is not None:
                self.post_message(self.Sorted(column))
            return
        index = self.scroll_offset.y + event.y - 1
        if 0 <= index < len(self._rows):
            self._move_to(index)
            if event.chain == 2:
                self.action_choose()

    def _column_at(self, x: int) -> str | None:
        end = MARGIN
        for placed in self._drawing.placed:
            end += placed.width + 2
            if MARGIN <= x < end:
                return placed.column.name
        return None
