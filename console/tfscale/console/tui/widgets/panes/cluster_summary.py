"""Top of the screen: the run with its clock, and the cluster's figures."""

from __future__ import annotations

from typing import NamedTuple

from rich.text import Text
from textual.reactive import reactive
from tfscale.console.tui.widgets.base_widgets import SnapshotWidget
from tfscale.console.tui.widgets.lifetime.start_strip import slowest_starting, start_strip
from tfscale.console.tui.widgets.panes.cluster_metrics import Figure, all_figures, logs_of
from tfscale.core.text import clock, listing

_WHOLE_NAMES = 144
"""Cells from which on all figures fit with their whole names."""


class Tag(NamedTuple):
    """Word for a mode of the console, in letters that stand out."""

    word: str
    colour: str
    """Name of a severity, or of a part of the bars."""


class Title(SnapshotWidget):
    """Title line: run, strategy, tasks that run, generation, and at the right the console's modes and the clock."""

    note: reactive[str] = reactive("")
    """Text beside the clock: the position of a replay."""
    tags: reactive[tuple[Tag, ...]] = reactive(())

    def render(self) -> Text:
        snapshot, palette = self.snapshot, self.appearance.palette
        if snapshot is None:
            return Text("tfscale", style=f"bold {palette.text}")
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(f"tfscale {snapshot.run}", style=f"bold {palette.text}")
        right = self._right(clock(snapshot.at))
        generation = "" if snapshot.generation is None else f"generation {snapshot.generation}"
        strategy = snapshot.strategy or ""
        parts = [strategy, f"{snapshot.up}/{len(snapshot.tasks)} up", generation]
        if snapshot.cordoned:
            parts.append(f"cordoned: {listing(list(snapshot.cordoned))}")
        room = self.size.width - text.cell_len - right.cell_len - 5
        if len("   ".join(parts)) > room:
            parts[0] = strategy.removesuffix("Strategy")
        if len("   ".join(parts)) > room:
            # The strategy is the first to go, since each task's page shows it.
            del parts[0]
        for part in filter(None, parts):
            text.append(f"   {part}", style=palette.dim)
        gap = " " * max(2, self.size.width - text.cell_len - right.cell_len)
        if not self.tags:
            return text.append(gap + right.plain, style=palette.dim)
        return text.append(gap).append_text(right)

    def _right(self, at: str) -> Text:
        palette, right = self.appearance.palette, Text(no_wrap=True)
        for word, colour in self.tags:
            shade = palette.severities.get(colour) or palette.parts[colour]
            right.append(f" {word} ", style=f"bold {palette.background} on {shade}").append(" ")
        return right.append("  ".join(filter(None, [self.note, at])), style=palette.dim)


class Metrics(SnapshotWidget):
    """Cluster's figures in one line, the most important first, as far as they fit; of a start its stages."""

    def render(self) -> Text:
        text = Text(no_wrap=True)
        if self.snapshot is None:
            return text
        if (slowest := slowest_starting(self.snapshot)) is not None:
            return start_strip(self.snapshot.findings.starts[str(slowest)], self.appearance, self.size.width)
        figures = all_figures(self.snapshot)
        if not any(figure.value for figure in figures):
            figures = [Figure("no steps", "measured at present")]
        logs = [*logs_of(self.snapshot)]
        # Whether names are whole depends on the terminal alone: a finding changes no name, and moves no figure.
        is_narrow = self.size.width < _WHOLE_NAMES
        gap = 2 if is_narrow else 3
        for figure in (*figures, *logs):
            slot = self._slot(figure, is_narrow)
            if not text or text.cell_len + gap + slot.cell_len <= self.size.width:
                text.append(" " * gap if text else "").append_text(slot)
        return text

    def _slot(self, figure: Figure, is_narrow: bool) -> Text:
        """Return a figure at its width, blank while it is unknown."""
        palette, name = self.appearance.palette, figure.short if is_narrow else figure.name
        if not figure.value:
            return Text(" " * (figure.width + 1 + len(name)))
        value = self.appearance.spell(figure.value)
        bold = f"bold {palette.text}"
        if figure.is_named_first:
            return Text.assemble((f"{name} ", palette.dim), (value.ljust(figure.width), bold))
        return Text.assemble((f"{value.rjust(figure.width)} ", bold), (name, palette.dim))
