"""Cells that reach the terminal: it shows what was drawn, whatever was left out on the way."""

from __future__ import annotations

import re
from random import Random

import fakes
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.strip import Strip
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.state import ClusterState
from tfscale.console.tui.app import ConsoleApp
from tfscale.console.tui.changed_cells import Painted
from waiting import settled

WIDTH, HEIGHT = 40, 3
CONSOLE = Console(color_system="truecolor", force_terminal=True)
SIGNS = "ab  ⣀█字"
STYLES = (None, Style(color="red"), Style(color="red", bold=True), Style(bgcolor="blue"))


class Grid:
    """Terminal of some lines that understands what is written here: moves, colours, and signs of two cells."""

    def __init__(self) -> None:
        self.cells: dict[tuple[int, int], tuple[str, str]] = {}

    def write(self, data: str) -> None:
        x = y = 0
        colour = ""
        for move, sgr, sign in re.findall(r"\x1b\[(\d+;\d+)H|\x1b\[([\d;]*)m|([^\x1b])", data):
            if move:
                y, x = (int(part) - 1 for part in move.split(";"))
            elif sign == "\n":
                y, x = y + 1, 0
            elif sign:
                self.cells[y, x] = sign, colour
                if Segment(sign).cell_length == 2:
                    self.cells[y, x + 1] = "", colour
                x += Segment(sign).cell_length
            else:
                colour = "" if sgr == "0" else sgr


def drawn(random: Random) -> list[Strip]:
    """Return lines of random pieces."""
    lines = []
    for _ in range(HEIGHT):
        pieces = [
            Segment("".join(random.choices(SIGNS, k=random.randint(0, 12))), random.choice(STYLES)) for _ in range(6)
        ]
        lines.append(Strip(pieces).adjust_cell_length(WIDTH, STYLES[-1]))
    return lines


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_the_terminal_shows_what_was_drawn_last(random: Random) -> None:
    painted, grid, whole = Painted(), Grid(), Grid()
    lines = drawn(random)
    grid.write(painted.write_all([[line] for line in lines], lambda _: "\n".join(map(str_of, lines)), CONSOLE))
    for _ in range(4):
        changed = drawn(random)
        lines = [random.choice([before, after]) for before, after in zip(lines, changed, strict=True)]
        spans = [(y, 0, WIDTH) for y in range(HEIGHT)]
        grid.write(painted.write_changes(spans, [{0: line} for line in lines], CONSOLE))
        assert not painted.write_changes(spans, [{0: line} for line in lines], CONSOLE)
    whole.write("\n".join(map(str_of, lines)))
    assert grid.cells == whole.cells


def str_of(line: Strip) -> str:
    return line.render(CONSOLE)


async def test_a_screen_is_what_its_changes_make_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of a second later, drawn by the console itself, reach the terminal as they are."""
    grid, whole = Grid(), Grid()
    cluster = fakes.spec(8)
    source = fakes.ScriptedSource(cluster, fakes.gpu_events(cluster))
    engine = Engine(source, lambda: ClusterState(cluster, fakes.FakeAnalysis(fakes.straggler_findings(cluster))))
    app = ConsoleApp(engine, fakes.FakeCommands())

    def display(_: object, update: object) -> None:
        app._spare(update)
        if isinstance(update, ChopsUpdate | LayoutUpdate):
            grid.write(update.render_segments(CONSOLE))

    monkeypatch.setattr(app, "_display", display)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        for key in ("j", "j", "s", "escape", "o", "e", "escape", "h", "right", "escape"):
            await pilot.press(key)
        app._engine.source.tick()
        await settled(pilot)
        whole.write(app.screen._compositor.render_full_update().render_segments(CONSOLE))
    assert grid.cells == whole.cells
