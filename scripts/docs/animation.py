"""The recording on top of the README: half a minute of the console before a simulated cluster, as one animated SVG.

    .venv/bin/python scripts/docs/animation.py [--out docs/pictures/recording.svg]

A worker becomes slow, is found by the keys that its screen names, and is restarted. Each frame is a screen that Textual
exports; lines that are alike are in the file once. It needs no script, no network and no font of its own. The time in
it is simulated from a fixed seed: only a change of the console changes the file.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pictures import ROOT, screenshot, set_environment

sys.path.insert(0, str(ROOT / "tests" / "harness"))

from stepped.stepped_simulation import SteppedSimulation

WORKERS, SIZE = 8, (100, 26)
FAULT = "worker:3=40ms,input@9s"


@dataclass(frozen=True)
class Scene:
    """Keys that are pressed, the caption below the screen, and the simulated seconds until each of its frames."""

    caption: str
    frames: Sequence[int]
    keys: Sequence[str] = ()
    lasts: float = 1.5
    """Seconds for which each frame is seen."""


SCENES = (
    Scene("eight workers in step", (8,)),
    Scene("one of them becomes slow: who, since when, why, and what it costs", (11, 2, 2)),
    Scene("enter   the task: its step, its host, its GPU, its log", (1, 1), ("enter",)),
    Scene("b   where its Python stands: it waits for the next batch", (1,), ("b",), 2.5),
    Scene("v   the last steps: it enters each all-reduce last, and the others wait", (1, 1), ("escape", "escape", "v")),
    Scene("e   what happened, with the evidence", (1,), ("e", "enter"), 3.0),
    Scene("r   restart, which asks first and says what is repeated", (1,), ("1", "r"), 3.0),
    Scene("y   all workers start again from their checkpoint", (1, 2, 3), ("y",)),
    Scene("eight workers in step", (12,), (), 3.0),
)


async def played() -> list[tuple[str, Scene]]:
    """Return each frame as Textual's SVG, with its scene."""
    source, frames = SteppedSimulation(WORKERS, FAULT), list[tuple[str, Scene]]()
    app = source.app()
    async with app.run_test(size=SIZE) as pilot:
        for scene in SCENES:
            await pilot.press(*scene.keys)
            for seconds in scene.frames:
                await source.step(pilot, seconds)
                await pilot.pause(0.6)
                frames.append((screenshot(app), scene))
    return frames


_RECT = re.compile(r'<rect fill="(.*?)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"')
_TEXT = re.compile(
    r'<text class="(.*?)" x="([\d.]+)" .*?textLength="([\d.]+)" clip-path=".*?-line-(\d+).*?>(.*?)</text>'
)
_ROW = 24.4
"""Height of a line in Textual's pictures."""
_BACKGROUND = "#11151c"
_KEYS_BELOW = 36
"""Height of the line below the screen, which says what is pressed."""


class Film:
    """Frames that share their lines and their styles."""

    def __init__(self, first: str) -> None:
        width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', first)[0]
        self.width, self.height = float(width), float(height) + _KEYS_BELOW
        self._styles: dict[str, str] = {}
        self._lines: dict[str, int] = {}

    def frame(self, picture: str) -> str:
        """Return a frame as references to its lines."""
        styles = dict(re.findall(r"\.(\S+-r\d+) \{ (.*?) \}", picture))
        screen = picture[picture.index('clip-terminal)">') :]
        lines: dict[int, list[str]] = {}
        for fill, x, y, width in _RECT.findall(screen):
            if fill != _BACKGROUND:
                line = lines.setdefault(round((float(y) - 1.5) / _ROW), [])
                line.append(f'<path fill="{fill}" d="M{x} 0h{width}v25h-{width}"/>')
        for name, x, width, row, words in _TEXT.findall(screen):
            if words.replace("&#160;", ""):
                style = self._styles.setdefault(styles[name], f"s{len(self._styles)}")
                text = f'<text class="{style}" x="{x}" y="18.5" textLength="{width}">{words}</text>'
                lines.setdefault(int(row), []).append(text)
        numbers = {row: self._lines.setdefault("".join(parts), len(self._lines)) for row, parts in lines.items()}
        return "".join(f'<use href="#l{numbers[row]}" y="{_ROW * row:g}"/>' for row in sorted(numbers))

    def svg(self, frames: Sequence[str], scenes: Sequence[Scene]) -> str:
        """Return the whole animation."""
        seconds = [0.0]
        for scene in scenes:
            seconds.append(seconds[-1] + scene.lasts)
        rules = "".join(f".{name}{{{style}}}" for style, name in self._styles.items())
        lines = "".join(f'<g id="l{number}">{parts}</g>' for parts, number in self._lines.items())
        shown = "".join(
            f'<g display="none">{_shown_from(begin, end, seconds[-1])}<g transform="translate(9 41)">{frame}</g>'
            f'<text class="key" x="20" y="{self.height - 12:g}">{scene.caption}</text></g>'
            for frame, scene, (begin, end) in zip(frames, scenes, pairwise(seconds), strict=True)
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {self.height:g}">'
            f"<style>text{{font:20px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}}"
            f".key{{fill:#9ecbff;font-size:18px}}{rules}</style><defs>{lines}</defs>"
            f'<rect width="100%" height="100%" rx="8" fill="{_BACKGROUND}"/>{shown}</svg>\n'
        )


def _shown_from(begin: float, end: float, whole: float) -> str:
    times = [0.0, begin / whole, end / whole] if begin else [0.0, end / whole]
    values = ["none", "inline", "none"] if begin else ["inline", "none"]
    if times[-1] >= 1:
        times, values = times[:-1], values[:-1]
    at = ";".join(f"{time:.4f}" for time in times)
    return (
        f'<animate attributeName="display" values="{";".join(values)}" keyTimes="{at}" dur="{whole:g}s" '
        'calcMode="discrete" repeatCount="indefinite"/>'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, metavar="FILE", default=ROOT / "docs" / "pictures" / "recording.svg")
    flags = parser.parse_args()
    set_environment()
    frames = asyncio.run(played())
    film = Film(frames[0][0])
    drawn = [film.frame(picture) for picture, _ in frames]
    flags.out.write_text(film.svg(drawn, [scene for _, scene in frames]))


if __name__ == "__main__":
    main()
