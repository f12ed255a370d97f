"""Step as a stacked bar, drawn in eighths of a cell, or in letters if the terminal cannot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from statistics import fmean

from rich.segment import Segment
from rich.style import Style
from tfscale.console.analysis.findings import SubjectSummary
from tfscale.console.tui.widgets.appearance.theme import LETTERS, PARTS, Appearance, style

_HOLD = 4
"""Eighths of a cell by which an edge has to move to be drawn elsewhere."""
Piece = tuple[str, int, int]
"""Part of a step, and the begin and end of its piece in eighths of a cell."""
Share = tuple[str, int]
"""Part of a step, and the number of eighths that it fills in one cell."""


def parts_of(summary: SubjectSummary | None) -> dict[str, float]:
    """Return seconds by part, without unknown parts. If waiting is unknown, all of the reduction is transfer."""
    if summary is None:
        return {}
    wait = summary.wait
    transfer = None if summary.reduce is None else max(0.0, summary.reduce - (wait or 0.0))
    lengths = (summary.update, summary.host, summary.input, summary.compute, transfer, wait)
    return {part: value for part, value in zip(PARTS, lengths, strict=True) if value is not None}


def length_of(summary: SubjectSummary | None) -> float:
    """Return the seconds of all parts together."""
    if summary is None:
        return 0.0
    lags = summary.update, summary.host, summary.input, summary.compute
    return sum(filter(None, lags), max(summary.reduce or 0.0, summary.wait or 0.0))


def mean_parts(summaries: Sequence[SubjectSummary | None]) -> dict[str, float]:
    """Return the mean seconds by part over the summaries that know it."""
    every = [parts_of(summary) for summary in summaries]
    lengths = {part: [parts[part] for parts in every if part in parts] for part in PARTS}
    return {part: fmean(values) for part, values in lengths.items() if values}


def scale_for(longest: float) -> float:
    """Return the round number of seconds, at least `longest`, that a full bar stands for."""
    if longest <= 0:
        return 1.0
    power = 1e-6
    while True:
        for digit in (1.0, 1.5, 2.0, 3.0, 5.0, 7.5):
            if longest <= digit * power * 1.0001:
                return digit * power
        power *= 10


def phase_bar(
    parts: Mapping[str, float],
    scale: float,
    width: int,
    appearance: Appearance,
    background: str,
    edges: list[int] | None = None,
) -> list[Segment]:
    """Draw one step in exactly `width` cells; a full bar stands for `scale` seconds.

    An edge that is less than `_HOLD` eighths from where `edges` has it stays there (hysteresis): noise moves nothing.
    `edges` is written anew.
    """
    ends = _ends(parts, scale, width)
    if edges is not None:
        if len(edges) == len(ends):
            ends = [old if abs(new - old) < _HOLD else new for new, old in zip(ends, edges, strict=True)]
            ends = [*accumulate(ends, max)]
        edges[:] = ends
    return bar_of(zip(PARTS, [0, *ends], ends, strict=False), PARTS, width, appearance, background)


def bar_of(
    pieces: Iterable[Piece], order: Sequence[str], width: int, appearance: Appearance, background: str
) -> list[Segment]:
    """Draw consecutive pieces in exactly `width` cells. `order` decides which parts a shared cell shows first."""
    cells = ((_cell_of(shares, order, appearance, background), count) for shares, count in _runs(pieces, width))
    return merged(Segment(cell.text * count, cell.style) for cell, count in cells)


def _runs(pieces: Iterable[Piece], width: int) -> Iterator[tuple[list[Share], int]]:
    """Return the contents of the cells from left to right, with the length of each run of equal cells."""
    cell, shares = 0, list[Share]()
    for part, begin, until in pieces:
        while begin < until:
            if shares and begin // 8 > cell:
                yield shares, 1
                cell, shares = cell + 1, []
            if begin // 8 > cell:
                yield [], begin // 8 - cell
                cell = begin // 8
            if begin % 8 == 0 and until - begin >= 8:
                count = (until - begin) // 8
                yield [(part, 8)], count
                cell, begin = cell + count, begin + count * 8
            else:
                stop = min(until, (cell + 1) * 8)
                shares.append((part, stop - begin))
                begin = stop
    if shares:
        yield shares, 1
        cell += 1
    if cell < width:
        yield [], width - cell


def merged(segments: Iterable[Segment]) -> list[Segment]:
    """Join neighbouring segments of the same style into one."""
    return [
        Segment("".join(segment.text for segment in run), drawn)
        for drawn, run in groupby(segments, key=lambda segment: segment.style)
    ]


def _ends(parts: Mapping[str, float], scale: float, width: int) -> list[int]:
    """Return the end of each part's piece in eighths of a cell."""
    totals = accumulate(parts.get(part, 0.0) for part in PARTS)
    return [min(width * 8, round(total / scale * width * 8)) for total in totals]


def _cell_of(shares: Sequence[Share], order: Sequence[str], appearance: Appearance, background: str) -> Segment:
    """Draw one cell from its parts and their eighths, in this order."""
    if appearance.letters:
        return _letter(shares, appearance, background)
    if not shares:
        return Segment(" ", style(None, background))
    colours = appearance.palette.parts
    left, eighths = shares[0]
    if eighths == 8:
        return Segment(" ", style(None, colours[left]))
    # A cell has only two colours: the smallest part is left out.
    largest = sorted(sorted(shares, key=lambda share: -share[1])[:2], key=lambda share: order.index(share[0]))
    left, eighths = largest[0]
    right = colours[largest[1][0]] if len(largest) == 2 else background
    return Segment(appearance.glyphs.eighths[min(eighths, 7) - 1], style(colours[left], right))


def _letter(shares: Sequence[Share], appearance: Appearance, background: str) -> Segment:
    if sum(eighths for _, eighths in shares) < 4:
        return Segment(" ", style(None, background))
    part = max(shares, key=lambda share: share[1])[0]
    return Segment(LETTERS[part], style(appearance.palette.text, background))


def legend(appearance: Appearance, scale: str) -> list[Segment]:
    """Draw the names of the parts in their colours, and the time of a full bar."""
    segments = []
    for part in PARTS:
        sign = Segment(LETTERS[part] + " ", Style(bold=True))
        if not appearance.letters:
            sign = Segment(appearance.glyphs.block + " ", Style(color=appearance.palette.parts[part]))
        segments += [sign, Segment(f"{part}  ", Style(color=appearance.palette.dim))]
    return [*segments, Segment(scale, Style(color=appearance.palette.dim))]
