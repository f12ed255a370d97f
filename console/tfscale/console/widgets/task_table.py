"""The table of tasks, on the Line API: only the rows on the screen are drawn, so a thousand cost as much as ten."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from tfscale.console.model import Snapshot, TaskView
from tfscale.console.widgets import format
from tfscale.console.widgets.bar import parts_of, phase_bar, scale_for
from tfscale.console.widgets.columns import Placed, layout
from tfscale.console.widgets.look import Look, style
from tfscale.core.task import Task

MARGIN = 3
SORTS = ("task", "lag", "state")


class TaskTable(ScrollView, can_focus=True):
    """One row a task, below a line of headings that stays."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "the task above; the mouse selects too", show=False),
        Binding("down,j", "move(1)", "the task below", show=False),
        Binding("pageup", "move(-20)", "20 tasks up", show=False),
        Binding("pagedown", "move(20)", "20 tasks down", show=False),
        Binding("home,g", "move(-100000)", "the first task", show=False),
        Binding("end,G", "move(100000)", "the last task", show=False),
        Binding("enter", "choose", "the task's numbers, host and log", show=False),
        Binding("space", "mark", "mark, so that a command takes several", show=False),
    ]

    snapshot: reactive[Snapshot | None] = reactive(None)
    look: reactive[Look] = reactive(Look())
    filter: reactive[str] = reactive("")
    sort: reactive[str] = reactive("task")

    class Chosen(Message):
        """The operator wants to see more of a task."""

        def __init__(self, task: Task) -> None:
            super().__init__()
            self.task = task

    def __init__(self) -> None:
        super().__init__()
        self.marked: set[Task] = set()
        self.cursor: Task | None = None
        self._rows: list[TaskView] = []
        self._columns: list[Placed] = []
        self._scale = 1.0

    @property
    def scale(self) -> float:
        """Seconds that a full bar stands for."""
        return self._scale

    @property
    def selected(self) -> tuple[Task, ...]:
        """The marked tasks, else the one under the cursor."""
        shown = self.snapshot.tasks if self.snapshot else ()
        marked = tuple(view.task for view in shown if view.task in self.marked)
        return marked or ((self.cursor,) if self.cursor else ())

    def watch_snapshot(self) -> None:
        self._arrange()

    def watch_look(self) -> None:
        self.refresh()

    def watch_filter(self) -> None:
        self._arrange()

    def watch_sort(self) -> None:
        self._arrange()

    def on_resize(self) -> None:
        self._arrange()

    def _arrange(self) -> None:
        if self.snapshot is None:
            return
        views = [view for view in self.snapshot.tasks if not self.filter or self._is_shown(view)]
        self._rows = sorted(views, key=self._sort_key) if self.sort != "task" else views
        times = [sum(parts_of(view.summary).values()) for view in self.snapshot.tasks]
        self._scale = scale_for(max(times, default=0.0))
        if self.cursor not in {view.task for view in self._rows}:
            self.cursor = self._rows[0].task if self._rows else None
        width = self.size.width
        names = [str(view.task) for view in self.snapshot.tasks]
        self._columns = layout(width - MARGIN, names, [view.host for view in self.snapshot.tasks])
        self.virtual_size = Size(width, len(self._rows) + 1)
        self.refresh()

    def _is_shown(self, view: TaskView) -> bool:
        wanted = self.filter.lower()
        state = view.status.state if view.status else ""
        said = f"{view.task} {view.host} {state} {' '.join(each.kind for each in view.diagnoses)}"
        return wanted in said.lower()

    def _sort_key(self, view: TaskView) -> tuple[object, ...]:
        if self.sort == "lag":
            lag = view.summary.lag if view.summary else None
            return (-(lag or 0.0), view.task)
        return (view.is_up, view.status.state if view.status else "", view.task)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y == 0:
            return Strip(self._headings()).adjust_cell_length(width, style(None, self.look.palette.background))
        index = self.scroll_offset.y + y - 1
        if not 0 <= index < len(self._rows):
            return Strip.blank(width, style(None, self.look.palette.background))
        return self._row(self._rows[index], width)

    def _headings(self) -> list[Segment]:
        faint = style(self.look.palette.dim, self.look.palette.background)
        segments = [Segment(" " * MARGIN, faint)]
        for placed in self._columns:
            if placed.column is None:
                text = _spread("0", format.seconds(self._scale), placed.width)
            else:
                text = _fit(placed.column.name, placed.width, placed.column.right)
            segments.append(Segment(text + "  ", faint))
        return segments

    def _row(self, view: TaskView, width: int) -> Strip:
        palette = self.look.palette
        is_cursor = view.task == self.cursor
        background = palette.selected if is_cursor else palette.background
        blank = style(None, background)
        edge = self.look.glyphs.cursor if is_cursor else " "
        mark = self.look.glyphs.mark if view.task in self.marked else " "
        segments = [Segment(f"{edge}{mark} ", style(palette.parts["transfer"], background))]
        for placed in self._columns:
            if placed.column is None:
                look = self.look if view.is_up else self.look.faded
                segments += phase_bar(parts_of(view.summary), self._scale, placed.width, look, background)
            else:
                segments.append(self._cell(view, placed, background))
            segments.append(Segment("  ", blank))
        return Strip(segments).adjust_cell_length(width, blank)

    def _cell(self, view: TaskView, placed: Placed, background: str) -> Segment:
        assert placed.column is not None and self.snapshot is not None
        text, tone = placed.column.cell(view, self.snapshot.at, self.look.glyphs)
        palette = self.look.palette
        is_named = placed.column.name == "task"
        colour = {"text": palette.text, "dim": palette.dim}.get(tone) or self.look.severity(tone)
        if view.is_stale and tone in ("text", "dim") and not is_named:
            colour = palette.dim
        drawn = style(colour, background, is_named or None)
        return Segment(_fit(text, placed.width, placed.column.right), drawn)

    def action_move(self, by: int) -> None:
        tasks = [view.task for view in self._rows]
        if not tasks:
            return
        at = tasks.index(self.cursor) if self.cursor in tasks else 0
        self._move_to(max(0, min(len(tasks) - 1, at + by)))

    def _move_to(self, index: int) -> None:
        self.cursor = self._rows[index].task
        # The headings cover the first line of what is visible.
        self.scroll_to_region(Region(0, index, 1, 2), animate=False, force=True)
        self.refresh()

    def go_to(self, task: Task) -> None:
        """Put the cursor on a task, if it is shown."""
        tasks = [view.task for view in self._rows]
        if task in tasks:
            self._move_to(tasks.index(task))

    def action_mark(self) -> None:
        if self.cursor is not None:
            self.marked ^= {self.cursor}
            self.action_move(1)
            self.refresh()

    def action_choose(self) -> None:
        if self.cursor is not None:
            self.post_message(self.Chosen(self.cursor))

    def on_click(self, event: events.Click) -> None:
        index = self.scroll_offset.y + event.y - 1
        if event.y > 0 and 0 <= index < len(self._rows):
            self._move_to(index)
            if event.chain == 2:
                self.action_choose()


def _fit(text: str, width: int, right: bool) -> str:
    if len(text) > width:
        text = _cut(text, width)
    return text.rjust(width) if right else text.ljust(width)


def _cut(text: str, width: int) -> str:
    """Shortened, between words where that leaves most of it."""
    whole = text[: width + 1].rpartition(" ")[0].rstrip(" ,")
    return whole if len(whole) * 2 > width else text[: width - 1] + "…"


def _spread(left: str, right: str, width: int) -> str:
    return left + right.rjust(width - len(left)) if len(left) + len(right) < width else right.rjust(width)
