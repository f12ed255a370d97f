"""Bar of a task while nobody makes a step: whether it has arrived in the all-reduce, and for how long it waits."""

from __future__ import annotations

from rich.segment import Segment
from tfscale.console.analysis.condition.process_doing import SILENT
from tfscale.console.analysis.condition.stillness import Stillness
from tfscale.console.engine.model import TaskView
from tfscale.console.tui.widgets.appearance.text_width import fit
from tfscale.console.tui.widgets.appearance.theme import LETTERS, Appearance, style
from tfscale.core.text import duration


def arrival_bar(
    view: TaskView, still: Stillness, scale: float, width: int, appearance: Appearance, *, background: str
) -> list[Segment]:
    """Draw one task in exactly `width` cells; a full bar stands for a wait of `scale` seconds.

    A task that is missing has words alone, and one of which neither is known an empty bar.
    """
    palette, does = appearance.palette, still.late.get(str(view.task))
    if does is not None:
        missing = does.brief if does.is_expected else "not heard" if does.kind == SILENT else "missing"
        text = fit(f"{missing} {duration(still.seconds)}", width, right=False)
        tone = palette.dim if does.is_expected else appearance.severity("warning")
        return [Segment(text, style(tone, background, bold=True))]
    if view.waits_for is None:
        return [Segment(" " * width, style(None, background))]
    filled = round(min(1.0, view.waits_for / scale) * width)
    text = fit(f"waits {duration(view.waits_for)}", width, right=False)
    if appearance.letters:
        text = text.rstrip().ljust(filled, LETTERS["wait"]).ljust(width)
        return [Segment(text, style(palette.text, background))]
    ground = style(palette.text, palette.parts["wait"]), style(palette.text, background)
    return [Segment(text[:filled], ground[0]), Segment(text[filled:], ground[1])]


def arrivals(views: tuple[TaskView, ...]) -> str:
    """Return how many of a group's tasks have arrived."""
    return f"{sum(view.waits_for is not None for view in views)} of {len(views)} wait"
