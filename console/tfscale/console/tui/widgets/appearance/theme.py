"""Colours and glyphs. The colours are Okabe and Ito's, safe for colour-blind people; no colour is the only sign."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from rich.style import Style
from textual.theme import Theme


@dataclass(frozen=True, slots=True)
class Glyphs:
    """Signs of one terminal's character set, each one cell wide."""

    running: str
    waiting: str
    moving: str
    finished: str
    failed: str
    lost: str
    alarm: str
    caution: str
    good: str
    note: str
    mark: str
    cursor: str
    rule: str
    eighths: str
    """Blocks of one to seven eighths of a cell, from the left; empty if the terminal has no such signs."""
    block: str
    border: str
    """Textual's name of the border of dialogues."""
    levels: str = "▁▂▃▄▅▆▇█"
    """Levels of a sparkline, from low to high."""
    shades: str = " ░▒▓█"
    """Shades of a heat map without colours, from low to high."""
    arrow: str = "→"
    hatch: str = "▒"
    rising: str = "↑"
    falling: str = "↓"
    moved: str = "»"
    opened: str = "▾"
    closed: str = "▸"
    hairline: str = "│"
    """Line at a moment that is read."""
    onset: str = "┆"
    """Line at the begin of a finding."""


UNICODE = Glyphs(
    running="●", waiting="○", moving="◐", finished="✔", failed="✖", lost="◌", alarm="▲", caution="△", good="●",
    note="·", mark="◆", cursor="▌", rule="─", eighths="▏▎▍▌▋▊▉", block="█", border="round",
)  # fmt: skip
ASCII = Glyphs(
    running="*", waiting=".", moving="~", finished="+", failed="X", lost="?", alarm="!", caution="^", good="*",
    note=".", mark="#", cursor=">", rule="-", eighths="", block="", border="ascii",
    levels="_.-=+*#", shades=" .:+#", arrow="->", hatch="/", rising="^", falling="v", moved=">", opened="-", closed="+",
    hairline="|", onset="!",
)  # fmt: skip

_PLAIN = str.maketrans({"–": "-", "…": "~", "°": " ", "·": ".", "×": "x", "→": ">"})

PARTS = ("update", "host", "input", "compute", "transfer", "wait")
"""Parts of a bar: the phases of a step, with `reduce` split into transfer on the network and waiting."""

LETTERS: Mapping[str, str] = {
    "update": "u",
    "host": "h",
    "input": "i",
    "compute": "c",
    "transfer": "t",
    "wait": ".",
}


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours of one theme, as `#rrggbb`."""

    background: str
    panel: str
    text: str
    dim: str
    faint: str
    selected: str
    severities: Mapping[str, str]
    parts: Mapping[str, str]


DARK = Palette(
    background="#11151c",
    panel="#1a202a",
    text="#dfe4ea",
    dim="#8b95a3",
    faint="#39424f",
    selected="#263242",
    severities={
        "good": "#3fbf95",
        "info": "#8b95a3",
        "warning": "#e69f00",
        "serious": "#ff8a3d",
        "critical": "#ff6b4a",
    },
    parts={
        "update": "#cc79a7",
        "host": "#f0e442",
        "input": "#e69f00",
        "compute": "#009e73",
        "transfer": "#56b4e9",
        "wait": "#39424f",
    },
)

LIGHT = Palette(
    background="#fbfbf9",
    panel="#eef0f2",
    text="#1b222c",
    dim="#5d6773",
    faint="#c3c9d0",
    selected="#dce6f2",
    severities={
        "good": "#00755a",
        "info": "#5d6773",
        "warning": "#9a6700",
        "serious": "#b84a00",
        "critical": "#c22f00",
    },
    parts={
        "update": "#b5588c",
        "host": "#e3d400",
        "input": "#c87800",
        "compute": "#009e73",
        "transfer": "#0072b2",
        "wait": "#d5d9de",
    },
)

HEAT = ("#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838")
"""Colours of the heat map from low to high: cividis, which looks the same to colour-blind people."""

CONTRAST = Palette(
    background="#000000",
    panel="#000000",
    text="#ffffff",
    dim="#cfcfcf",
    faint="#7a7a7a",
    selected="#0b3d73",
    severities={
        "good": "#5fe0b5",
        "info": "#cfcfcf",
        "warning": "#ffb81f",
        "serious": "#ff9d5c",
        "critical": "#ff8a6e",
    },
    parts={
        "update": "#f58fce",
        "host": "#fff866",
        "input": "#ff9d0a",
        "compute": "#00b884",
        "transfer": "#6cc4ff",
        "wait": "#6a6a6a",
    },
)

PALETTES: Mapping[str, Palette] = {"tfscale-dark": DARK, "tfscale-light": LIGHT, "tfscale-contrast": CONTRAST}


@dataclass(frozen=True, slots=True)
class Appearance:
    """Palette, glyphs, and whether bars are made of colours or of letters."""

    palette: Palette = DARK
    glyphs: Glyphs = UNICODE
    letters: bool = False

    @property
    def faded(self) -> Appearance:
        """Same look with faded colours, for values that may be out of date."""
        return replace(self, palette=_FADED[self.palette.background])

    def spell(self, text: str) -> str:
        """Replace the signs that the terminal lacks, each by a sign of the same width."""
        return text.translate(_PLAIN) if self.glyphs is ASCII else text

    def severity(self, name: str) -> str:
        return self.palette.severities.get(name, self.palette.dim)

    def tint(self, severity: str) -> str:
        """Return the background of what has this severity."""
        return _blend(self.severity(severity), self.palette.background, 6)

    def sign(self, severity: str) -> str:
        """Return the sign that means the same as the severity's colour."""
        return severity_sign(severity, self.glyphs)


def severity_sign(severity: str, glyphs: Glyphs) -> str:
    """Return the sign that a character set has for a severity."""
    signs = {"good": glyphs.good, "warning": glyphs.caution, "serious": glyphs.alarm, "critical": glyphs.failed}
    return signs.get(severity, glyphs.note)


@cache
def _blend(colour: str, background: str, parts: int = 3) -> str:
    """Mix one part of the colour with its background, `parts` parts together."""
    pairs = ((int(colour[at : at + 2], 16), int(background[at : at + 2], 16)) for at in (1, 3, 5))
    return "#" + "".join(f"{(mine + (parts - 1) * theirs) // parts:02x}" for mine, theirs in pairs)


def _fade(palette: Palette) -> Palette:
    parts = {name: _blend(colour, palette.background) for name, colour in palette.parts.items()}
    return replace(palette, text=palette.dim, parts=parts)


_FADED = {palette.background: _fade(palette) for palette in PALETTES.values()}


@cache
def style(colour: str | None, background: str, bold: bool | None = None) -> Style:
    """Return a cell's style. Cached, since making a style costs more than drawing with it."""
    return Style(color=colour, bgcolor=background, bold=bold)


def theme_name(palette: str | None, remembered: str | None) -> str:
    """Return the name of the theme of this palette, else of the one chosen last, else of the first."""
    name = remembered if palette is None else f"tfscale-{palette}"
    return name if name is not None and name in PALETTES else next(iter(PALETTES))


def theme(name: str) -> Theme:
    """Return the palette of this name as a Textual theme."""
    palette = PALETTES[name]
    return Theme(
        name=name,
        primary=palette.parts["transfer"],
        secondary=palette.dim,
        accent=palette.parts["transfer"],
        warning=palette.severities["warning"],
        error=palette.severities["critical"],
        success=palette.severities["good"],
        foreground=palette.text,
        background=palette.background,
        surface=palette.background,
        panel=palette.panel,
        dark=palette is not LIGHT,
    )
