"""One step as a stacked bar, to an eighth of a cell where the terminal can, as letters where it cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from statistics import fmean

from rich.segment import Segment
from rich.style import Style
from tfscale.console.widgets.look import LETTERS, PARTS, Look, style
from tfscale.core.analysis.diagnose import SubjectSummary


def parts_of(summary: SubjectSummary | None) -> dict[str, float]:
    """Seconds by part; what is unknown is left out. Where waiting is unknown, all of the reduction is transfer."""
    if summary is None:
        return {}
    wait = summary.wait
    transfer = None if summary.reduce is None else max(0.0, summary.reduce - (wait or 0.0))
    known = (summary.update, summary.host, summary.input, summary.compute, transfer, wait)
    return {part: value for part, value in zip(PARTS, known, strict=True) if value is not None}


def mean_parts(summaries: Sequence[SubjectSummary | None]) -> dict[str, float]:
    """Mean seconds by part over those of whom it is known."""
    every = [parts_of(summary) for summary in summaries]
    known = {part: [parts[part] for parts in every if part in parts] for part in PARTS}
    return {part: fmean(values) for part, values in known.items() if values}


def scale_for(longest: float) -> float:
    """The round number of seconds, at least `longest`, that a full bar stands for."""
    if longest <= 0:
        return 1.0
    power = 1e-6
    while True:
        for digit in (1.0, 1.5, 2.0, 3.0, 5.0, 7.5):
            if longest <= digit * power * 1.0001:
                return digit * power
        power *= 10


def phase_bar(parts: Mapping[str, float], scale: float, width: int, look: Look, background: str) -> list[Segment]:
    """The bar of one step in exactly `width` cells; a full bar stands for `scale` seconds."""
    edges = _edges(parts, scale, width)
    cells = list(_letters(edges, width, look, background) if look.letters else _blocks(edges, width, look, background))
    # Most neighbours look alike: one segment for each run of them.
    return [
        Segment("".join(each.text for each in run), drawn)
        for drawn, run in ((drawn, list(run)) for drawn, run in groupby(cells, key=lambda cell: cell.style))
    ]


def _letters(edges: list[tuple[str, int, int]], width: int, look: Look, background: str) -> Iterator[Segment]:
    return (_letter(_shares(edges, cell * 8), look, background) for cell in range(width))


def _blocks(edges: list[tuple[str, int, int]], width: int, look: Look, background: str) -> Iterator[Segment]:
    ends = {part: until // 8 for part, _, until in edges}
    cell = 0
    while cell < width:
        shares = _shares(edges, cell * 8)
        if not shares:
            yield Segment(" " * (width - cell), style(None, background))
            return
        part, eighths = shares[0]
        # Whole cells of one part at once: they are most of a bar.
        whole = ends[part] - cell if eighths == 8 else 0
        yield Segment(" " * whole, style(None, look.palette.parts[part])) if whole else _block(shares, look, background)
        cell += max(1, whole)


def _edges(parts: Mapping[str, float], scale: float, width: int) -> list[tuple[str, int, int]]:
    """Where each part begins and ends, in eighths of a cell."""
    edges, at, total = [], 0, 0.0
    for part in PARTS:
        total += parts.get(part, 0.0)
        until = min(width * 8, round(total / scale * width * 8))
        edges.append((part, at, until))
        at = until
    return edges


def _shares(edges: list[tuple[str, int, int]], start: int) -> list[tuple[str, int]]:
    """The parts in the cell that begins at `start`, with their eighths, in order."""
    overlaps = ((part, min(until, start + 8) - max(begin, start)) for part, begin, until in edges)
    return [(part, eighths) for part, eighths in overlaps if eighths > 0]


def _letter(shares: list[tuple[str, int]], look: Look, background: str) -> Segment:
    if sum(eighths for _, eighths in shares) < 4:
        return Segment(" ", style(None, background))
    part = max(shares, key=lambda share: share[1])[0]
    return Segment(LETTERS[part], style(look.palette.text, background))


def _block(shares: list[tuple[str, int]], look: Look, background: str) -> Segment:
    """A cell that more than one part, or the end of the bar, shares."""
    colours = look.palette.parts
    if len(shares) > 2:
        # A cell has two colours; the smallest part gives way.
        shares = sorted(
            sorted(shares, key=lambda share: -share[1])[:2], key=lambda share: list(LETTERS).index(share[0])
        )
    left, eighths = shares[0]
    right = colours[shares[1][0]] if len(shares) == 2 else background
    return Segment(look.glyphs.eighths[min(eighths, 7) - 1], style(colours[left], right))


def legend(look: Look, scale: str) -> list[Segment]:
    """What the parts of a bar are, and what a full one stands for."""
    segments = []
    for part in PARTS:
        sign = Segment(LETTERS[part] + " ", Style(bold=True))
        if not look.letters:
            sign = Segment(look.glyphs.block + " ", Style(color=look.palette.parts[part]))
        segments += [sign, Segment(f"{part}  ", Style(color=look.palette.dim))]
    return [*segments, Segment(scale, Style(color=look.palette.dim))]
