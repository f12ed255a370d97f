"""Frames of regions, with the name, the count and the key of each in its upper line."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget
from tfscale.console.tui.widgets.appearance.theme import Appearance

_SIGNS = {"round": tuple("╭─╮│╰╯"), "ascii": tuple("+-+|++")}
"""Upper left corner, level line, upper right corner, upright line, and the lower corners, by the name of a border."""


def set_title(widget: Widget, name: str, count: int | None = None, key: str = "") -> None:
    """Write a region's title into its border; a border that has no corners needs the spaces beside it."""
    title = frame_title(name, count, key)
    widget.border_title = title if widget.styles.border_left[0] else f" {title} "


def frame_title(name: str, count: int | None = None, key: str = "") -> str:
    """Return the title of a region's border: `tasks 64`, and the key that leads to more."""
    return "  ".join(filter(None, [name if count is None else f"{name} {count:,}", key and f"[b]{key}[/b]"]))


def framed(lines: list[Text], title: Text, foot: tuple[str, str], width: int, appearance: Appearance) -> list[Text]:
    """Put a frame of `width` cells around lines: the title in the upper line, and two texts at the ends of the lower.

    Lines are cut to the frame; a title is cut, too.
    """
    palette = appearance.palette
    upper_left, level, upper_right, upright, lower_left, lower_right = _SIGNS[appearance.glyphs.border]
    inside = max(0, width - 2)
    head = Text(f"{level} ", style=palette.faint).append_text(title).append(" ")
    head.truncate(inside)
    head.append(level * (inside - head.cell_len), style=palette.faint)
    left, right = foot
    if len(left) + len(right) > inside:
        left, right = "", ""
    rest = level * (inside - len(left) - len(right))
    lower = Text.assemble((left, palette.dim), (rest, palette.faint), (right, palette.dim))
    drawn = [_between(upper_left, head, upper_right, palette.faint)]
    for line in lines:
        line.truncate(inside, pad=True)
        drawn.append(_between(upright, line, upright, palette.faint))
    return [*drawn, _between(lower_left, lower, lower_right, palette.faint)]


def _between(left: str, middle: Text, right: str, colour: str) -> Text:
    return Text.assemble((left, colour), middle, (right, colour), no_wrap=True)
