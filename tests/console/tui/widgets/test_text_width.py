"""Wrapped lines: complete, within the width, and indented after the first."""

from __future__ import annotations

import pytest
from rich.text import Text
from tfscale.console.tui.widgets.appearance.text_width import fit, wrap_hanging

SAID = "08:00:26  ▲ worker:1 has been slow for 6.0 s (since 08:00:20): compute takes 108 ms, the others' 77 ms"


@pytest.mark.parametrize("width", [30, 41, 78, 200])
def test_all_words_are_there_below_each_other(width: int) -> None:
    lines = [line.plain for line in wrap_hanging(Text(SAID), width, 12)]
    assert all(len(line) <= width for line in lines) and all(line.startswith(" " * 12) for line in lines[1:])
    assert " ".join(" ".join(lines).split()) == " ".join(SAID.split())
    assert (len(lines) == 1) is (width >= len(SAID))


def test_too_many_lines_and_too_little_room_end_in_an_ellipsis() -> None:
    first, last = (line.plain for line in wrap_hanging(Text(SAID), 40, 12, limit=2))
    assert first == "08:00:26  ▲ worker:1 has been slow for" and last.endswith("…") and len(last) == 40
    assert [line.plain for line in wrap_hanging(Text(SAID), 20, 12)] == ["08:00:26  ▲ worker:…"]


def test_facts_stay_whole_and_keep_their_colours() -> None:
    text = Text("gpu 0      35.4 GB of 42.9 GB   1410 of 1410 MHz   330 of 400 W").append("   61 °C", style="red")
    first, second = wrap_hanging(text, 52, 11)
    assert first.plain == "gpu 0      35.4 GB of 42.9 GB   1410 of 1410 MHz" and second.plain.endswith("400 W   61 °C")
    assert [span.style for span in second.spans] == ["red"]


@pytest.mark.parametrize(
    ("width", "shown"), [(14, "▲ 1.4x compute"), (13, "▲ 1.4x compu…"), (8, "▲ 1.4x… "), (3, "▲ …")]
)
def test_a_text_is_never_cut_without_a_mark(width: int, shown: str) -> None:
    assert fit("▲ 1.4x compute", width, right=False) == shown.ljust(width)
