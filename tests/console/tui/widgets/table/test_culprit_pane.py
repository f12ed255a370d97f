"""Pane of the culprits: one beside the median of the others, or several, of whom none is left out."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

import fakes
import pages
import pytest
from tfscale.console.engine.model import Snapshot
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.panes.headline_pane import Headline
from tfscale.console.tui.widgets.table.culprit_pane import CulpritPane, culprit_lines
from tfscale.console.tui.widgets.table.culprits import named_stragglers
from tfscale.core.text import step_time
from waiting import settled, still


class Shown(NamedTuple):
    """Snapshot, and the lines of the sentence, of the pane and of the table."""

    snapshot: Snapshot
    sentence: list[str]
    pane: list[str]
    table: list[str]


async def shown(case: str, size: tuple[int, int]) -> Shown:
    app = pages.build(case, 8)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        await still(pilot)
        widgets = (app.screen.query_one(Headline), app.screen.query_one(CulpritPane), app.cluster.table)
        drawn = ([widget.render_line(y).text for y in range(widget.size.height)] for widget in widgets)
        assert app.cluster.snapshot is not None
        return Shown(app.cluster.snapshot, *drawn)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_the_bar_of_a_culprit_stands_above_the_others_median_with_the_difference_hatched(
    size: tuple[int, int],
) -> None:
    snapshot, _, (culprit, others), table = await shown("slow", size)
    (straggler,) = named_stragglers(snapshot)
    assert "worker:1  compute 1.4x" in culprit and f"+{step_time(straggler.number('excess'))}" in culprit
    assert "the others' median" in others and "▒" not in others
    (hatched,) = re.findall("▒+", culprit)
    axis = re.search(r"0 +150 ms", table[0])
    assert axis is not None and axis.start() < culprit.index(hatched) < axis.end()
    assert len(hatched) == pytest.approx(0.030 / 0.150 * len(axis[0]), abs=1.2)


async def test_a_low_or_narrow_screen_has_one_line_for_the_culprit_and_rows_below_it() -> None:
    _, _, pane, table = await shown("slow", (60, 15))
    assert len(pane) == 1 and "worker:1  compute 1.4x" in pane[0] and "▒" in pane[0]
    assert "1.4x compute" in table[1] and len([row for row in table[1:] if "worker:" in row]) >= 3


async def test_several_culprits_have_a_line_each_with_phase_number_cause_and_remedy() -> None:
    _, sentence, pane, table = await shown("several", (200, 60))
    assert not "".join(sentence[1:]).strip() and "3 of 8 workers (worker:1, 4 and 6)" in sentence[0]
    assert "; the cluster loses " in sentence[0]
    told = (
        ("worker:1", "input +", "waiting for its data", "prefetch"),
        ("worker:4", "compute +", "overheated", "cooling"),
        ("worker:6", "compute +", "with a slow GPU", "nvidia-smi"),
    )
    for line, words, row in zip(pane, told, table[1:4], strict=True):
        assert all(word in line for word in words), line
        number = re.search(r"\((\S+x)\)", line)
        assert number is not None and f" {number[1]} " in row and words[0] in row


@pytest.mark.parametrize(("width", "most"), [(200, 3), (80, 6), (60, 3), (60, 2), (40, 2)])
def test_no_culprit_is_left_out_however_little_room_there_is(width: int, most: int) -> None:
    state = pages.state_of("several", 8)
    stragglers = named_stragglers(state.snapshot(fakes.NOW + 41))
    lines = [line.plain for line in culprit_lines(stragglers, width, most, Appearance())]
    assert len(lines) <= most and all(len(line) <= width for line in lines)
    places = ["".join(lines).find(name) for name in ("worker:1", "worker:4", "worker:6")]
    assert all(at >= 0 for at in places) and all(one < other for one, other in pairwise(places))


@pytest.mark.parametrize("case", ["healthy", "hang", "kill"])
async def test_where_the_sentence_names_no_straggler_there_is_no_line(case: str) -> None:
    assert (await shown(case, (120, 40))).pane == []
