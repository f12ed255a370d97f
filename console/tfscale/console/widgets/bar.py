"""One step as a stacked bar, to an eighth of a cell where the terminal can, as letters where it cannot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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


def length_of(summary: SubjectSummary | None) -> float:
    """Seconds of all parts together."""
    if summary is None:
        return 0.0
    known = summary.update, summary.host, summary.input, summary.compute
    return sum(filter(None, known), max(summary.reduce or 0.0, summary.wait or 0.0))


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
    segments: list[Segment] = []
    at = 0
    # Only the cells in which a part ends need to be looked at one by one.
    for cell in sorted({until // 8 for _, _, until in edges if until % 8}):
        segments += _whole_cells(edges, at, cell, look, background)
        segments.append(cell_of(_shares(edges, cell * 8), PARTS, look, background))
        at = cell + 1
    segments += _whole_cells(edges, at, width, look, background)
    return merged(segments)


def merged(segments: Iterable[Segment]) -> list[Segment]:
    """One segment for each run of those that look alike: most neighbours do."""
    return [
        Segment("".join(each.text for each in run), drawn)
        for drawn, run in groupby(segments, key=lambda segment: segment.style)
    ]


def _whole_cells(
    edges: list[tuple[str, int, int]], first: int, stop: int, look: Look, background: str
) -> Iterator[Segment]:
    """The cells from `first` up to `stop`, in each of which there is one part or none."""
    at = first
    for part, begin, until in edges:
        count = min(until // 8, stop) - max(begin // 8, at)
        if count > 0:
            one = cell_of([(part, 8)], PARTS, look, background)
            yield Segment(one.text * count, one.style)
            at += count
    if at < stop:
        blank = cell_of([], PARTS, look, background)
        yield Segment(blank.text * (stop - at), blank.style)


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


def cell_of(shares: Sequence[tuple[str, int]], order: Sequence[str], look: Look, background: str) -> Segment:
    """One cell, from its parts and their eighths; what it shows of them stands in this order."""
    if look.letters:
        return _letter(shares, look, background)
    if not shares:
        return Segment(" ", style(None, background))
    colours = look.palette.parts
    # A cell has two colours; the smallest part gives way.
    kept = sorted(sorted(shares, key=lambda share: -share[1])[:2], key=lambda share: order.index(share[0]))
    left, eighths = kept[0]
    if len(kept) == 1 and eighths == 8:
        return Segment(" ", style(None, colours[left]))
    right = colours[kept[1][0]] if len(kept) == 2 else background
    return Segment(look.glyphs.eighths[min(eighths, 7) - 1], style(colours[left], right))


def _letter(shares: Sequence[tuple[str, int]], look: Look, background: str) -> Segment:
    if sum(eighths for _, eighths in shares) < 4:
        return Segment(" ", style(None, background))
    part = max(shares, key=lambda share: share[1])[0]
    return Segment(LETTERS[part], style(look.palette.text, background))


def legend(look: Look, scale: str) -> list[Segment]:
    """What the parts of a bar are, and what a full one stands for."""
    segments = []
    for part in PARTS:
        sign = Segment(LETTERS[part] + " ", Style(bold=True))
        if not look.letters:
            sign = Segment(look.glyphs.block + " ", Style(color=look.palette.parts[part]))
        segments += [sign, Segment(f"{part}  ", Style(color=look.palette.dim))]
    return [*segments, Segment(scale, Style(color=look.palette.dim))]
