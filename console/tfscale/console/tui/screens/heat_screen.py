"""Heat map page: all tasks or all GPUs, for hundreds of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static
from tfscale.console.engine.model import Snapshot
from tfscale.console.tui.screens.base_screen import SnapshotScreen
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.charts.heat_map import HeatMap
from tfscale.console.tui.widgets.charts.heat_measures import MEASURES
from tfscale.console.tui.widgets.navigation.key_bar import KeyBar
from tfscale.console.tui.widgets.panes.cluster_summary import Metrics, Title
from tfscale.console.tui.widgets.panes.headline_pane import Headline
from tfscale.core.cluster.task import Task

KEYS = (
    ("esc", "back"),
    ("m", "measure"),
    ("u", "tasks or GPUs"),
    ("arrows", "move"),
    ("enter", "task"),
    ("?", "help"),
)


class HeatScreen(SnapshotScreen):
    """Heat map with the headline above and its legend below."""

    DEFAULT_CSS = """
    HeatScreen { background: $background; padding: 0 1; }
    HeatScreen Title, HeatScreen Metrics, HeatScreen KeyBar { height: 1; }
    HeatScreen Headline { height: auto; max-height: 4; }
    HeatScreen HeatMap { height: 1fr; margin: 1 0; scrollbar-size-vertical: 1; overflow-x: hidden; }
    HeatScreen Static { height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "measure(1)", "the next measure", show=False),
        Binding("M", "measure(-1)", "the measure before", show=False),
        Binding("u", "unit", "a cell for each task, or for each GPU", show=False),
        Binding("escape,h", "back", "back to the table", show=False),
    ]

    def __init__(
        self,
        snapshot: Snapshot | None,
        appearance: Appearance,
        measure: str,
        task: Task | None,
        measured: Callable[[str], None],
    ) -> None:
        """Open the map with the cursor on `task`; `measured` is called with each chosen measure."""
        super().__init__(snapshot, appearance)
        self.map = HeatMap(task)
        self.map.set_reactive(HeatMap.measure, measure)
        self._measured = measured

    @property
    def page(self) -> str:
        return "heat"

    @property
    def selected(self) -> tuple[Task, ...]:
        """Task under the cursor."""
        return (self.map.spot.view.task,) if self.map.spot else ()

    def compose(self) -> ComposeResult:
        bound = {"snapshot": SnapshotScreen.snapshot, "appearance": SnapshotScreen.appearance}
        yield self.tabs()
        yield Title().data_bind(**bound)
        yield Headline().data_bind(**bound)
        yield Metrics().data_bind(**bound)
        yield self.map.data_bind(**bound)
        yield Static(id="about")
        yield Static(id="legend")
        yield KeyBar(KEYS).data_bind(SnapshotScreen.appearance)

    def on_mount(self) -> None:
        self.map.focus()
        for name in ("cursor", "measure", "by_gpu", "snapshot", "appearance"):
            self.watch(self.map, name, self._show_texts)

    def _show_texts(self) -> None:
        description, legend = Text(), Text()
        if self.snapshot is not None:
            description, legend = self.map.description(), self.map.legend()
        self.query_one("#about", Static).update(description, layout=False)
        self.query_one("#legend", Static).update(legend, layout=False)

    def action_measure(self, by: int) -> None:
        names = [name for name in MEASURES if MEASURES[name].of_gpus or not self.map.by_gpu]
        at = names.index(self.map.measure) + by if self.map.measure in names else 0
        self.map.measure = names[at % len(names)]
        self._measured(self.map.measure)

    def action_unit(self) -> None:
        """Switch between tasks and GPUs; with GPUs, only measures that differ between GPUs of a task are offered."""
        self.map.by_gpu = not self.map.by_gpu
        if self.map.by_gpu and not self.map.current_measure.of_gpus:
            self.action_measure(1)

    def action_back(self) -> None:
        self.dismiss()
