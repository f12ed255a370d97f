"""Steps page: the newest steps of all workers side by side, to see who was late and who waited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static
from tfscale.console.engine.model import Snapshot
from tfscale.console.history.history import History
from tfscale.console.history.recent_steps import RecentSteps
from tfscale.console.tui.screens.base_screen import SnapshotScreen
from tfscale.console.tui.widgets.appearance.ascii_spelling import spelled
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.charts.step_timeline import StepBars, StepLayout, sentence, timeline
from tfscale.console.tui.widgets.navigation.key_bar import KeyBar, Legend
from tfscale.console.tui.widgets.panes.cluster_summary import Title
from tfscale.console.tui.widgets.panes.headline_pane import open_diagnoses
from tfscale.core.cluster.task import Task

_WIDE = 110
"""Cells from which on three steps are shown."""
_COUNTS = (1, 2, 3, 5, 8)
KEYS = (
    ("esc", "back"),
    ("left right", "step"),
    ("p", "hold"),
    ("z", "zoom"),
    ("s", "sort"),
    ("enter", "task"),
    ("?", "help"),
)


class StepsScreen(SnapshotScreen):
    """Bars on one time axis, the slowest worker first."""

    DEFAULT_CSS = """
    StepsScreen { background: $background; padding: 0 1; }
    StepsScreen Title, StepsScreen KeyBar, StepsScreen Static { height: 1; }
    StepsScreen #said { margin: 1 0 0 0; }
    StepsScreen Legend { height: 2; padding: 1 0 0 2; }
    StepsScreen StepBars { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,v", "app.pop_screen", "back", show=False),
        Binding("left", "go(-1)", "the step before; holds", show=False),
        Binding("right", "go(1)", "the next step", show=False),
        Binding("p", "hold", "hold these steps; again: go on with the newest", show=False),
        Binding("s", "sort", "the slowest first, or in order", show=False),
        Binding("z", "zoom", "more steps at once; after the most, one", show=False),
    ]

    def __init__(self, snapshot: Snapshot | None, appearance: Appearance) -> None:
        super().__init__(snapshot, appearance)
        self.bars = StepBars()
        self.last: int | None = None
        """Newest collective that is shown."""
        self.is_held = False
        self._count: int | None = None
        self._is_sorted = True
        self._order: Sequence[Task] = ()
        self._of: History | None = None
        self._newest: int | None = None
        """Newest collective at the time of drawing."""
        self._shown_of: tuple[object, ...] = ()
        """Data from which the bars were drawn."""

    @property
    def page(self) -> str:
        return "steps"

    @property
    def selected(self) -> tuple[Task, ...]:
        return (self.bars.cursor,) if self.bars.cursor else ()

    @property
    def count(self) -> int:
        """Number of steps shown."""
        return self._count or (3 if self.size.width >= _WIDE else 2)

    def compose(self) -> ComposeResult:
        bound = {"snapshot": SnapshotScreen.snapshot, "appearance": SnapshotScreen.appearance}
        yield self.tabs()
        yield Title().data_bind(**bound)
        yield Static(id="said", markup=False)
        yield Static(id="how", markup=False)
        yield Legend().data_bind(SnapshotScreen.appearance)
        with Vertical():
            yield self.bars.data_bind(SnapshotScreen.appearance)
        yield KeyBar(KEYS).data_bind(SnapshotScreen.appearance)

    def on_mount(self) -> None:
        self.bars.focus()
        self.redraw()

    def on_resize(self) -> None:
        self.redraw()

    def redraw(self) -> None:
        history = self.snapshot.history if self.snapshot else None
        if history is None:
            return
        steps = history.recent_steps
        newest, oldest = steps.common, steps.oldest
        self._newest = newest
        if history is not self._of or newest is None or (self.last or 0) > newest:
            # After a jump of a replay, and after a restart, collectives are counted from another number.
            self._of, self.is_held = history, False
        if newest is None or oldest is None:
            self._shown_of = ()
            self._show_texts(
                timeline(steps.aligned(0, 1)), Text("no worker has reported a step", style=self.appearance.palette.dim)
            )
            return
        if not self.is_held or self.last is None:
            self.last = newest
        self.last = max(self.last, min(newest, oldest + self.count - 1))
        self._show_texts(self._draw(steps, self.last), self._status(newest))

    def _draw(self, steps: RecentSteps, last: int) -> StepLayout:
        """Draw the bars, unless the same steps are drawn already, as after a hold."""
        is_judged = self.snapshot is not None and any(view.summary for view in self.snapshot.tasks)
        shown_of = steps, last, steps.reporters(last), self.count, self._is_sorted, is_judged
        layout = self.bars.timeline
        if layout is None or shown_of != self._shown_of:
            self._shown_of, layout = shown_of, timeline(steps.aligned(last, self.count))
            if not self.is_held or set(self._order) != set(layout.aligned.tasks):
                self._order = self._ordered(layout)
            self.bars.show(layout, self._order)
        return layout

    def _status(self, newest: int) -> Text:
        assert self.last is not None
        palette = self.appearance.palette
        position = "the newest, second by second"
        if self.is_held:
            position = f"held, {newest - self.last:,} before the newest; p goes on" if newest > self.last else "held"
        order = "slowest first" if self._is_sorted else "in order"
        return Text(f"{position}   {order}", style=palette.dim, no_wrap=True, overflow="ellipsis")

    def _show_texts(self, layout: StepLayout, status: Text) -> None:
        result = self._stuck() or sentence(layout, self.appearance)
        for name, text in (("#said", result), ("#how", status)):
            self.query_one(name, Static).update(spelled(text, self.appearance), layout=False)

    def _stuck(self) -> Text | None:
        """Return the words for the task that an unfinished step waits for: complete steps cannot show it."""
        diagnoses = open_diagnoses(self.snapshot) if self.snapshot and not self.is_held else []
        hang = next((diagnosis for diagnosis in diagnoses if diagnosis.kind in ("hang", "still")), None)
        if hang is None:
            return None
        colour = self.appearance.severity(hang.severity)
        return Text(f"{self.appearance.sign(hang.severity)} {hang.sentence}", style=f"bold {colour}", no_wrap=True)

    def _ordered(self, layout: StepLayout) -> Sequence[Task]:
        tasks = layout.aligned.tasks
        if not self._is_sorted or not len(layout.lag):
            return tasks
        # The medians of the window are calmer than one step.
        summaries = {view.task: view.summary for view in self.snapshot.tasks} if self.snapshot else {}
        lag = [summary.lag if (summary := summaries.get(task)) else None for task in tasks]
        lags = [np.nan if value is None else value for value in lag]
        return [tasks[place] for place in np.argsort(-np.asarray(lags), kind="stable").tolist()]

    def action_go(self, by: int) -> None:
        if self.last is not None and self.snapshot and self.snapshot.history:
            self.is_held = True
            self.last = min(self.last + by, self.last if self._newest is None else self._newest)
            self.redraw()

    def action_hold(self) -> None:
        self.is_held = not self.is_held
        if self.bars.timeline is not None and self._newest is not None:
            # A held picture stays as it was drawn; the sentence above the bars is made before them.
            self._show_texts(self.bars.timeline, self._status(self._newest))
        if not self.is_held:
            self.call_after_refresh(self.redraw)

    def action_zoom(self) -> None:
        self._count = next((count for count in _COUNTS if count > self.count), _COUNTS[0])
        self.redraw()

    def action_sort(self) -> None:
        self._is_sorted = not self._is_sorted
        self._order = ()
        self.redraw()
