"""The event pane: what happened lately, newest last."""

from __future__ import annotations

from rich.text import Text
from textual.geometry import Size
from tfscale.console.model import Moment
from tfscale.console.widgets import format
from tfscale.console.widgets.look import Look
from tfscale.console.widgets.plain import spelled
from tfscale.console.widgets.summary import SnapshotWidget


class Moments(SnapshotWidget):
    """As many of the newest moments as there are lines, one a line."""

    def render(self) -> Text:
        palette, height = self.look.palette, self.size.height
        title = Text("events ", style=palette.dim, no_wrap=True)
        title.append(self.look.glyphs.rule * max(0, self.size.width - 7), style=palette.faint)
        moments = self.snapshot.moments[-max(0, height - 1) :] if self.snapshot and height > 1 else ()
        lines = [_line(moment, self.look, self.size) for moment in moments]
        if not lines:
            lines = [Text("nothing so far", style=palette.dim)]
        return spelled(Text("\n").join([title, *lines]), self.look)


def _line(moment: Moment, look: Look, size: Size) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{format.clock(moment.at)}  ", style=look.palette.dim)
    text.append(f"{look.sign(moment.severity)} ", style=look.severity(moment.severity))
    if not moment.text.startswith(moment.subject):
        text.append(f"{moment.subject} ", style=f"bold {look.palette.text}")
    text.append(moment.text, style=look.palette.text)
    text.truncate(size.width, overflow="ellipsis")
    return text
