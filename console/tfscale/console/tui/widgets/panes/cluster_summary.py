"""Top of the screen: the run with its clock, and the cluster's figures."""

from __future__ import annotations

from rich.text import Text
from textual.reactive import reactive
from tfscale.console.tui.widgets.base_widgets import SnapshotWidget
from tfscale.console.tui.widgets.panes.cluster_metrics import Figure, figures_of, logs_of
from tfscale.core.text import clock, listing


class Title(SnapshotWidget):
    """Title line: run, strategy, tasks that run, generation, and the clock at the right."""

    is_paused: reactive[bool] = reactive(False)
    note: reactive[str] = reactive("")
    """Text beside the clock: a recording under way, or the position of a replay."""

    def render(self) -> Text:
        snapshot, palette = self.snapshot, self.appearance.palette
        if snapshot is None:
            return Text("tfscale", style=f"bold {palette.text}")
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(f"tfscale {snapshot.run}", style=f"bold {palette.text}")
        right = f"paused at {clock(snapshot.at)}" if self.is_paused else clock(snapshot.at)
        right = f"{self.note}   {right}" if self.note else right
        generation = "" if snapshot.generation is None else f"generation {snapshot.generation}"
        strategy = snapshot.strategy or ""
        parts = [strategy, f"{snapshot.up}/{len(snapshot.tasks)} up", generation]
        if snapshot.cordoned:
            parts.append(f"cordoned: {listing(list(snapshot.cordoned))}")
        room = self.size.width - text.cell_len - len(right) - 5
        if len("   ".join(parts)) > room:
            parts[0] = strategy.removesuffix("Strategy")
        if len("   ".join(parts)) > room:
            # The strategy is the first to go, since each task's page shows it.
            del parts[0]
        for part in filter(None, parts):
            text.append(f"   {part}", style=palette.dim)
        text.append(right.rjust(max(len(right) + 2, self.size.width - text.cell_len)), style=palette.dim)
        return text


class Metrics(SnapshotWidget):
    """Cluster's figures in one line, the most important first; figures that do not fit are left out."""

    def render(self) -> Text:
        palette = self.appearance.palette
        text = Text(no_wrap=True)
        if self.snapshot is None:
            return text
        figures = figures_of(self.snapshot) or [Figure("no steps", "measured at present")]
        is_narrow = sum(len(figure.value) + len(figure.name) + 4 for figure in figures) > self.size.width
        gap = 2 if is_narrow else 3
        for figure in (*figures, *logs_of(self.snapshot)):
            name = figure.short if is_narrow else figure.name
            room = self.size.width - text.cell_len
            if len(figure.value) + len(name) + gap + 1 <= room or not text:
                text.append(" " * gap if text else "")
                value = (self.appearance.spell(figure.value), f"bold {palette.text}")
                words = [(name, palette.dim), value] if figure.is_named_first else [value, (name, palette.dim)]
                text.append_text(Text(" ").join(Text(*word) for word in words))
        return text
