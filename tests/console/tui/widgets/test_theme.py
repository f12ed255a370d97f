"""Themes: enough contrast to read, and colours that colour-blind people can tell apart."""

from __future__ import annotations

import itertools

import pytest
from tfscale.console.tui.widgets.appearance.theme import PALETTES, Palette

Colour = tuple[float, float, float]

# Machado, Oliveira and Fernandes, 2009: severity 1.0, on linear RGB.
SIGHTS: dict[str, tuple[Colour, Colour, Colour]] = {
    "usual": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "protanope": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranope": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanope": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def linear(colour: str) -> Colour:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return _linear(red), _linear(green), _linear(blue)


def _linear(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def contrast(one: str, other: str) -> float:
    """Return WCAG's contrast of two colours, 1 to 21."""
    low, high = sorted(_luminance(linear(colour)) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: Colour) -> float:
    return 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2]


def difference(one: str, other: str, sight: str) -> float:
    """Return CIE 1976's difference of two colours as they are seen; from 2 on it is visible side by side."""
    labs = [_lab(_seen(linear(colour), sight)) for colour in (one, other)]
    return float(sum((a - b) ** 2 for a, b in zip(*labs, strict=True)) ** 0.5)


def _seen(colour: Colour, sight: str) -> Colour:
    red, green, blue = (
        min(1.0, max(0.0, sum(share * value for share, value in zip(row, colour, strict=True))))
        for row in SIGHTS[sight]
    )
    return red, green, blue


def _lab(colour: Colour) -> Colour:
    red, green, blue = colour
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
    across, up, along = (
        value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in (x, _luminance(colour), z)
    )
    return 116 * up - 16, 500 * (across - up), 200 * (up - along)


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("name", PALETTES)
def test_no_two_parts_of_a_bar_look_alike(name: str, sight: str) -> None:
    parts = PALETTES[name].parts
    near = {
        (one, other): found
        for one, other in itertools.combinations(parts, 2)
        if (found := difference(parts[one], parts[other], sight)) < 12
    }
    assert near == {}


@pytest.mark.parametrize(("name", "least"), [("tfscale-dark", 4.5), ("tfscale-light", 4.5), ("tfscale-contrast", 7.0)])
def test_all_text_can_be_read(name: str, least: float) -> None:
    palette: Palette = PALETTES[name]
    for colour in (palette.text, palette.dim, *palette.severities.values()):
        assert contrast(colour, palette.background) >= least
    assert contrast(palette.text, palette.selected) >= least
