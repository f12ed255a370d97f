"""Task table, drawn line by line (Line API): a thousand rows cost no more than the ten that are visible."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from tfscale.console.engine.model import Snapshot, TaskView
from tfscale.console.tui.widgets.appearance.text_width import fit
from tfscale.console.tui.widgets.appearance.theme import Appearance, style
from tfscale.console.tui.widgets.base_widgets import TaskOpened
from tfscale.console.tui.widgets.charts.sparkline import SECONDS, sparklines
from tfscale.console.tui.widgets.charts.step_bar import length_of, mean_parts, parts_of, phase_bar, scale_for
from tfscale.console.tui.widgets.table.filter_query import FilterQuery
from tfscale.console.tui.widgets.table.row_order import Key, Row, RowGroup, RowOrder, TaskRow, arrange
from tfscale.console.tui.widgets.table.task_columns import USUAL, Drawn, Placed, Scene, layout, usual
from tfscale.console.tui.widgets.task_readings import log_names, newest_step
from tfscale.core.cluster.task import Task
from tfscale.core.text import step_time

MARGIN = 3
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

    def __init__(self) -> None:
        super().__init__()
        self.marked: set[Task] = set()
        self._key: Key | None = None
        self._rows: list[Row] = []
        self._at: dict[Key, int] = {}
        self._placed: list[Placed] = []
        self._seen = Scene(0.0, Appearance().glyphs)
        self._scale = 1.0
        self._drawn: dict[_Appearance, Strip] = {}
        self._earlier: dict[_Appearance, Strip] = {}
        """Lines drawn from the previous snapshot, for the rows below `_until`."""
        self._until = _FAR
        self._drawn_as: tuple[object, ...] = ()
        self._trends: dict[Task, str] = {}
        """Sparklines of the rows drawn since the newest snapshot, and of their neighbours."""

    @property
    def scale(self) -> float:
        """Seconds that a full bar stands for."""
        return self._scale

    @property
    def cursor(self) -> Task | None:
        """Task under the cursor; None on a group's heading."""
        return self._key if isinstance(self._key, Task) else None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that fit, from left to right."""
        return tuple(placed.column.name for placed in self._placed)

    @property
    def shown_count(self) -> int:
        """Number of tasks that pass the filter."""
        return len({task for row in self._rows for task in row.tasks})

    @property
    def selected(self) -> tuple[Task, ...]:
        """Marked tasks, else the task under the cursor, or all tasks of the group under it."""
        views = self.snapshot.tasks if self.snapshot else ()
        marked = tuple(view.task for view in views if view.task in self.marked)
        row = self._under_cursor
        return marked or (row.tasks if row else ())

    def watch_snapshot(self) -> None:
        self._arrange()

    def watch_appearance(self) -> None:
        self._arrange()

    def watch_row_filter(self) -> None:
        self._arrange()

    def watch_order(self, before: RowOrder, after: RowOrder) -> None:
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

    def _scene(self, snapshot: Snapshot) -> Scene:
        steps = [step for view in snapshot.tasks if (step := newest_step(view)) is not None]
        return Scene(snapshot.at, self.appearance.glyphs, max(steps, default=None))

    def _arrange(self) -> None:
        snapshot = self.snapshot
        if snapshot is None:
            return
        self._seen = self._scene(snapshot)
        before = self._at.get(self._key, 0) if self._key is not None else 0
        self._rows = arrange(snapshot.tasks, self.row_filter, self.order, self._seen)
        self._at = {row.key: index for index, row in enumerate(self._rows)}
        self._scale = scale_for(max((length_of(view.summary) for view in snapshot.tasks), default=0.0))
        width = self.size.width
        # The scrollbar covers the last cell.
        room = width - MARGIN - (len(self._rows) + 1 > self.size.height)
        names, hosts = [str(view.task) for view in snapshot.tasks], [view.host for view in snapshot.tasks]
        if self.order.group:
            names = [f"  {name}" for name in (*names, *(row.name for row in self._rows if isinstance(row, RowGroup)))]
        chosen = usual(snapshot.tasks) if self.chosen_columns == USUAL else self.chosen_columns
        self._placed = layout(room, chosen, names, hosts, log_names(snapshot.tasks))
        self._trends = {}
        self.virtual_size = Size(width, len(self._rows) + 1)
        self._keep_cursor(before)
        self._draw()

    def _draw(self) -> None:
        """Redraw all lines, in portions if only numbers have changed, so that keys are answered in between."""
        drawn_as = (self.size, self.appearance, self._scale, self._placed, list(self._at))
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
        if self._key not in self._at:
            self._key = self._rows[min(before, len(self._rows) - 1)].key
        after = self._at[self._key]
        if self.scroll_offset.y and after != before:
            # After scrolling, the operator reads this row; without scrolling, the top of the table.
            self.scroll_to(y=max(0, self.scroll_offset.y + after - before), animate=False, force=True)

    @property
    def _under_cursor(self) -> Row | None:
        return self._row_at(self._at.get(self._key, -1)) if self._key is not None else None

    def _row_at(self, index: int) -> Row | None:
        return self._rows[index] if 0 <= index < len(self._rows) else None

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y == 0:
            return Strip(self._headings()).adjust_cell_length(width, style(None, self.appearance.palette.background))
        row = self._row_at(self.scroll_offset.y + y - 1)
        if row is None:
            return Strip.blank(width, style(None, self.appearance.palette.background))
        key = row.key, row.key == self._key, all(task in self.marked for task in row.tasks)
        strip = self._drawn.get(key) or (self._earlier.get(key) if y >= self._until else None)
        if strip is None:
            strip = self._drawn[key] = self._row(row, width, is_cursor=key[1], is_marked=key[2])
        return strip

    def _headings(self) -> list[Segment]:
        palette, glyphs = self.appearance.palette, self.appearance.glyphs
        faint, strong = style(palette.dim, palette.background), style(palette.text, palette.background, True)
        segments = [Segment(" " * MARGIN, faint)]
        for placed in self._placed:
            name, width = placed.column.name, placed.width
            is_sorted = name == self.order.sort and (name != "task" or self.order.is_reversed)
            if is_sorted:
                name += glyphs.rising if self.order.is_reversed else glyphs.falling
            if placed.column.drawn is Drawn.BAR and not is_sorted:
                text = _spread("0", step_time(self._scale), width)
            elif placed.column.drawn is Drawn.TREND and not is_sorted:
                text = _spread("a minute ago", "now", width) if width > 16 else fit(name, width, right=False)
            else:
                text = fit(name, width, right=placed.column.right)
            segments.append(Segment(text + "  ", strong if is_sorted else faint))
        return segments

    def _row(self, row: Row, width: int, *, is_cursor: bool, is_marked: bool) -> Strip:
        palette, glyphs = self.appearance.palette, self.appearance.glyphs
        background = palette.selected if is_cursor else palette.background
        blank = style(None, background)
        edge = f"{glyphs.cursor if is_cursor else ' '}{glyphs.mark if is_marked else ' '} "
        segments = [Segment(edge, style(palette.parts["transfer"], background))]
        for placed in self._placed:
            if isinstance(row, RowGroup):
                segments += self._of_group(row, placed, background)
            else:
                segments += self._of_task(row.view, placed, background)
            segments.append(Segment("  ", blank))
        return Strip(segments).adjust_cell_length(width, blank)

    def _of_task(self, view: TaskView, placed: Placed, background: str) -> list[Segment]:
        appearance = self.appearance if view.is_up else self.appearance.faded
        match placed.column.drawn:
            case Drawn.BAR:
                return phase_bar(parts_of(view.summary), self._scale, placed.width, appearance, background)
            case Drawn.TREND:
                return [self._trend(view, placed.width, appearance, background)]
        text, tone = placed.column.cell(view, self._seen)
        is_named = placed.column.name == "task"
        if is_named and self.order.group:
            text = f"  {text}"
        if view.is_stale and tone in ("text", "dim") and not is_named:
            tone = "dim"
        return [self._cell(text, tone, placed, background, is_bold=is_named)]

    def _trend(self, view: TaskView, width: int, appearance: Appearance, background: str) -> Segment:
        if view.task not in self._trends:
            self._look_back(width)
        return Segment(self._trends.get(view.task, " " * width), style(appearance.palette.dim, background))

    def _look_back(self, width: int) -> None:
        """Draw the sparklines of the visible tasks: those of all tasks would take longer than all other drawing."""
        if self.snapshot is not None and (history := self.snapshot.history) is not None:
            first = self.scroll_offset.y
            rows = self._rows[first : first + self.size.height]
            tasks = [row.key for row in rows if isinstance(row, TaskRow)]
            values = history.step_times(self.snapshot.at, SECONDS, tasks)
            self._trends = dict(zip(tasks, sparklines(values, width, self.appearance), strict=True))

    def _of_group(self, group: RowGroup, placed: Placed, background: str) -> list[Segment]:
        glyphs, name = self.appearance.glyphs, placed.column.name
        if placed.column.drawn is Drawn.BAR:
            parts = mean_parts([view.summary for view in group.views])
            return phase_bar(parts, self._scale, placed.width, self.appearance, background)
        if name == "task":
            sign = glyphs.opened if group.is_open else glyphs.closed
            return [self._cell(f"{sign} {group.name}", "text", placed, background, is_bold=True)]
        if name == "state":
            up = sum(view.is_up for view in group.views)
            tone = "good" if up == len(group.views) else "warning"
            return [self._cell(f"{up}/{len(group.views)} up", tone, placed, background)]
        if name == "flag":
            worst = max(group.views, key=lambda view: placed.column.sorted_by(view, self._seen) or 0)
            return [self._cell(*placed.column.cell(worst, self._seen), placed, background)]
        text, tone = placed.column.of_group(group.views, self._seen)
        return [self._cell(text, tone, placed, background)]

    def _cell(self, text: str, tone: str, placed: Placed, background: str, *, is_bold: bool = False) -> Segment:
        palette = self.appearance.palette
        colour = {"text": palette.text, "dim": palette.dim}.get(tone) or self.appearance.severity(tone)
        drawn = style(colour, background, is_bold or None)
        return Segment(self.appearance.spell(fit(text, placed.width, right=placed.column.right)), drawn)

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
        self._key = self._rows[index].key
        for line in (before, index):
            self.refresh_line(line + 1)
        # The headings cover the first visible line.
        self.scroll_to_region(Region(0, index, 1, 2), animate=False, force=True)

    def go_to(self, task: Task) -> None:
        """Put the cursor on a task, if it is shown."""
        if task in self._at:
            self._move_to(self._at[task])

    def row_as_text(self, task: Task) -> str:
        """Return the texts of a task's row, without bars."""
        snapshot = self.snapshot
        if snapshot is None:
            return str(task)
        columns = [placed.column for placed in self._placed if placed.column.drawn is Drawn.TEXT]
        view, scene = snapshot.view(task), self._scene(snapshot)
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
        for placed in self._placed:
            end += placed.width + 2
            if MARGIN <= x < end:
                return placed.column.name
        return None


def _spread(left: str, right: str, width: int) -> str:
    return left + right.rjust(width - len(left)) if len(left) + len(right) < width else right.rjust(width)
