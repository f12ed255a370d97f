"""Pane of the culprits, pinned below the sentence: one beside the others' median, or a line for each of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from rich.segment import Segment
from rich.text import Text
from textual.message import Message
from textual.strip import Strip
from tfscale.console.analysis.causes.cause_words import IN_A_WORD
from tfscale.console.analysis.first_steps import about_one_straggler
from tfscale.console.engine.model import Snapshot
from tfscale.console.tui.widgets.appearance.text_width import wrap_hanging
from tfscale.console.tui.widgets.appearance.theme import PARTS, Appearance, style
from tfscale.console.tui.widgets.base_widgets import CulpritWanted, SnapshotLines
from tfscale.console.tui.widgets.charts.step_bar import parts_of, phase_bar
from tfscale.console.tui.widgets.table.culprits import named_stragglers
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.text import listing, step_time, times

_TALL = 20
"""Lines of a screen from which on the others' bar has a line of its own."""
_MOST_PEERS = 64
"""Peers whose median is drawn, at most: more would take longer than they tell."""
_INDENT = 6


class BarPlace(NamedTuple):
    """Place and scale of the bars in the table below."""

    at: int
    """First cell."""
    width: int
    scale: float
    """Seconds of a full bar."""


class CulpritPane(SnapshotLines):
    """Stragglers that the sentence names; without any, the pane has no line."""

    class Resized(Message):
        """Change of the pane's size, and with it of the room of the table."""

    def __init__(self, place: Callable[[], BarPlace | None]) -> None:
        """Make the pane; `place` returns where the table has its bars, None while it shows none."""
        super().__init__()
        self._place = place

    def lines(self, width: int) -> list[Text]:
        snapshot, height = self.snapshot, self.screen.size.height
        stragglers = named_stragglers(snapshot) if snapshot is not None else ()
        if snapshot is None or not stragglers:
            return []
        if len(stragglers) > 1:
            lines = culprit_lines(stragglers, width, max(2, (height - 12) // 3), self.appearance)
        else:
            lines = _Comparison(snapshot, stragglers[0], self.appearance, self._place()).lines()
            del lines[2 if height >= _TALL else 1 :]
        return [_tinted(line, width, stragglers[0], self.appearance) for line in lines]

    def on_resize(self) -> None:
        self.post_message(self.Resized())

    def on_click(self) -> None:
        self.post_message(CulpritWanted())


def _tinted(line: Text, width: int, straggler: Diagnosis, appearance: Appearance) -> Text:
    line.truncate(width, pad=True)
    line.stylize_before(style(appearance.palette.text, appearance.tint(straggler.severity)))
    line.no_wrap = True
    return line


def culprit_lines(stragglers: Sequence[Diagnosis], width: int, most: int, appearance: Appearance) -> list[Text]:
    """Return who is slow, in which phase, why and what to do: in `most` lines, of which no culprit is left out.

    Where there is no room for all words each has one line, and the last line names those without one.
    """
    texts = [_in_words(straggler, appearance) for straggler in stragglers]
    wrapped = [wrap_hanging(text.copy(), width, _INDENT) for text in texts]
    if sum(map(len, wrapped)) <= most:
        return [line for lines in wrapped for line in lines]
    lines = [wrap_hanging(text, width, _INDENT, limit=1)[0] for text in texts]
    if len(lines) > most:
        others = listing([straggler.subject for straggler in stragglers[most - 1 :]], len(stragglers))
        lines[most - 1 :] = [Text(f"   and {others}")]
    return lines


def _in_words(straggler: Diagnosis, appearance: Appearance) -> Text:
    """Return the whole line of one of several culprits."""
    dim, evidence = appearance.palette.dim, straggler.evidence
    text = Text.assemble(
        (f" {appearance.sign(straggler.severity)} ", appearance.severity(straggler.severity)),
        (straggler.subject, "bold"),
        f"  {_excess(straggler)}",
    )
    if (why := IN_A_WORD.get(str(evidence.get("cause")))) is not None:
        text.append(f", {why}")
    if (step := about_one_straggler(straggler)) is not None:
        text.append(f"  {appearance.glyphs.arrow} ", appearance.palette.parts["transfer"]).append(step, dim)
    text.plain = appearance.spell(text.plain)
    return text


def _excess(straggler: Diagnosis) -> str:
    """Return how much longer its slowest phase takes: `compute +32.1 ms (1.4x)`."""
    excess, ratio = straggler.number("excess"), straggler.number("phase_ratio")
    words = [str(straggler.evidence["phase"])]
    words += [] if excess is None else [f"+{step_time(excess)}"]
    words += [] if ratio is None else [f"({times(ratio)})"]
    return " ".join(words)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Bars of a straggler and of the others' median, the difference of its slowest phase hatched."""

    snapshot: Snapshot
    straggler: Diagnosis
    appearance: Appearance
    place: BarPlace | None

    def lines(self) -> list[Text]:
        straggler, appearance = self.straggler, self.appearance
        phase, tone = str(straggler.evidence["phase"]), appearance.severity(straggler.severity)
        name = Text.assemble((f" {appearance.sign(straggler.severity)} ", tone), (straggler.subject, "bold"))
        own, peers = self._parts()
        if self.place is None or phase not in own or phase not in peers:
            return [name.append(f"  {_excess(straggler)}", tone)]
        ratio, excess = straggler.number("phase_ratio"), straggler.number("excess")
        name.append(f"  {phase}" + ("" if ratio is None else f" {times(ratio)}"))
        self._add_bar(name, self.place, own, (phase, peers[phase]))
        name.append("" if excess is None else f"  +{step_time(excess)}", f"bold {tone}")
        others = Text("   the others' median", appearance.palette.dim)
        self._add_bar(others, self.place, peers)
        return [name, others]

    def _parts(self) -> tuple[dict[str, float], dict[str, float]]:
        """Return the seconds by part of the straggler and of the others' median."""
        subject, summaries = self.straggler.subject, self.snapshot.findings.subjects
        peers = [name for name in summaries if name != subject and ("/" in name) == ("/" in subject)]
        sample = [parts_of(summaries[name]) for name in peers[:: -(-len(peers) // _MOST_PEERS) or 1]]
        known = {part: [parts[part] for parts in sample if part in parts] for part in PARTS}
        return parts_of(summaries.get(subject)), {part: median(values) for part, values in known.items() if values}

    def _add_bar(
        self, text: Text, place: BarPlace, parts: dict[str, float], beyond: tuple[str, float] | None = None
    ) -> None:
        """Add a bar at its place, hatched from these seconds of a phase to the phase's end."""
        ground = self.appearance.tint(self.straggler.severity)
        bar = Strip(phase_bar(parts, place.scale, place.width, self.appearance, ground))
        if beyond is not None:
            phase, usual = beyond
            before = sum(parts.get(part, 0.0) for part in PARTS[: PARTS.index(phase)])
            cells = [round(at / place.scale * place.width) for at in (before + usual, before + parts[phase])]
            first, until = cells[0], min(place.width, max(cells[1], cells[0] + 1))
            sign = Segment(
                self.appearance.glyphs.hatch * (until - first), style(self.appearance.palette.parts[phase], ground)
            )
            bar = Strip([*bar.crop(0, first), sign, *bar.crop(until, place.width)])
        text.truncate(place.at - 1, overflow="ellipsis")
        text.pad_right(place.at - text.cell_len)
        for segment in bar:
            text.append(segment.text, segment.style)
