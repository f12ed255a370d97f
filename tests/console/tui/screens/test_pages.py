"""The pages of a task, of steps, of events and of advice: their pictures, and the effects of their keys."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

import fakes
import pages
import pytest
from rich.text import Text
from textual.containers import VerticalScroll
from textual.strip import Strip
from textual.widgets import Static
from tfscale.console.advice import advice_record
from tfscale.console.tui.screens.advice_screen import AdviceScreen
from tfscale.console.tui.screens.events_screen import EventsScreen
from tfscale.console.tui.screens.steps_screen import StepsScreen
from tfscale.console.tui.screens.task_screen import TaskScreen
from waiting import settled, still, until

SIZES = [(80, 24), (120, 40), (200, 60)]
TO_WORKER_1 = ("s", "enter", "s", "enter", "j")
"""Keys that lead to the second task in the order of their names, whoever is to blame."""
PAGES = {
    "task": (*TO_WORKER_1, "enter"),
    "charts": (*TO_WORKER_1, "enter", "c"),
    "steps": "v",
    "events": ("e", "enter"),
    "advice": "A",
}


@pytest.fixture(autouse=True)
def _without_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the record of the advice: pictures must not change with each new record."""
    monkeypatch.setattr(advice_record, "_cases", lambda: ())


def pressing(*keys: str) -> Callable[[Any], Awaitable[None]]:
    async def press(pilot: Any) -> None:
        await settled(pilot)
        await pilot.press(*keys)
        await still(pilot)

    return press


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("page", PAGES)
def test_healthy_looks_as_before(snap_compare: Any, page: str, size: tuple[int, int]) -> None:
    assert snap_compare(pages.build("healthy"), terminal_size=size, run_before=pressing(*PAGES[page]))


@pytest.mark.parametrize("case", [case for case in pages.FAULTS if case != "healthy"])
@pytest.mark.parametrize("page", [page for page in PAGES if page != "charts"])
def test_faults_look_as_before(snap_compare: Any, page: str, case: str) -> None:
    assert snap_compare(pages.build(case), terminal_size=(120, 40), run_before=pressing(*PAGES[page]))


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("case", [case for case in pages.FAULTS if case != "healthy"])
@pytest.mark.parametrize("page", [page for page in PAGES if page != "charts"])
def test_faults_look_as_before_at_other_sizes(snap_compare: Any, page: str, case: str, size: tuple[int, int]) -> None:
    assert snap_compare(pages.build(case), terminal_size=size, run_before=pressing(*PAGES[page]))


@pytest.mark.parametrize("keys", ["enter", *(pytest.param(keys, marks=pytest.mark.slow) for keys in "veAh")])
async def test_nothing_that_a_page_drew_stays_when_it_is_left(keys: str) -> None:
    async with pages.build("slow").run_test(size=(120, 40)) as pilot:

        async def visit() -> int:
            await pilot.press(keys)
            await still(pilot)
            await pilot.press("escape")
            await until(lambda: len(pilot.app.screen_stack) == 2, pilot.pause)
            await still(pilot)
            gc.collect()
            return sum(isinstance(thing, Strip) for thing in gc.get_objects())

        await settled(pilot)
        first = await visit()
        assert max([await visit() for _ in range(3)]) <= first + 10


@pytest.mark.parametrize("page", PAGES)
def test_ascii_looks_as_before(snap_compare: Any, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = pages.build("slow", ascii=True)
    assert snap_compare(app, terminal_size=(80, 24), run_before=pressing(*PAGES[page]))


def text_of(app: Any) -> str:
    """Return all text on the screen, line by line."""
    lines = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in lines)


def said(app: Any, selector: str) -> str:
    content = app.screen.query_one(selector, Static).render()
    return content.plain if isinstance(content, Text) else str(content)


async def opened(pilot: Any, *keys: str) -> Any:
    await pressing(*keys)(pilot)
    return pilot.app.screen


async def test_a_task_says_where_it_runs_and_what_slows_its_gpu_down() -> None:
    app = pages.build("thermal")
    async with app.run_test(size=(120, 50)) as pilot:
        screen = await opened(pilot, *TO_WORKER_1, "enter")
        assert isinstance(screen, TaskScreen)
        text = text_of(app)
        assert "rank 1 on GPU 0, over eth0" in text
        assert "987 of 1410 MHz   210 of 400 W   91 °C" in text
        assert "✖ slowed down by heat" in text
        assert "phases of a step" in text and "GPU" in text


async def test_a_task_says_how_it_ended() -> None:
    app = pages.build("kill")
    async with app.run_test(size=(120, 50)) as pilot:
        await opened(pilot, *TO_WORKER_1, "enter")
        assert "ended      08:00:20   generation 1   attempt 1   was killed by SIGKILL" in text_of(app)
        await pilot.press("J")
        await pilot.pause()
        assert "attempt 1   exited 1   because worker:1 had ended" in text_of(app)


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("height", [24, 35, 40, 60])
async def test_a_task_with_many_lines_leaves_room_for_its_log_and_the_lines_around(workers: int, height: int) -> None:
    app = pages.build("slow" if workers > 1 else "healthy", workers)
    async with app.run_test(size=(70, height)) as pilot:
        screen = await opened(pilot, *((*TO_WORKER_1, "enter") if workers > 1 else ()))
        assert isinstance(screen, TaskScreen) and screen.max_scroll_y == 0, "nothing is pushed out"
        assert screen.log_view.region.height and bool(screen.charts.region.height) is (height >= 35)


async def test_charts_and_log_alone_and_zoom() -> None:
    app = pages.build("healthy")
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot, "enter")
        assert not screen.charts.region.height, "there is no room for charts beside the numbers and the log"
        await pilot.press("c")
        await pilot.pause()
        assert screen.charts.region.height > 15 and not screen.log_view.region.height
        assert "ago" in text_of(app)
        before = screen.charts.seconds_a_column
        await pilot.press("z")
        assert screen.charts.seconds_a_column > before
        await pilot.press("z", "z", "z")
        assert screen.charts.seconds_a_column == before
        await pilot.press("l")
        await pilot.pause()
        assert screen.log_view.region.height > 15 and not screen.charts.region.height
        await pilot.press("l", "c", "escape")
        await pilot.pause()
        assert app.screen is screen and screen.log_view.region.height


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_charts_that_are_read_look_as_before(snap_compare: Any, size: tuple[int, int]) -> None:
    keys = (*TO_WORKER_1, "enter", "c", *["left"] * 25)
    assert snap_compare(pages.build("slow", 8), terminal_size=size, run_before=pressing(*keys))


async def test_a_task_is_beside_its_peers_and_is_read_at_a_moment() -> None:
    app = pages.build("slow", 8)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, *TO_WORKER_1, "enter", "c")
        first = next(line for line in text_of(app).splitlines() if "phases of a step" in line)
        assert re.match(r" *compute 10\d ms  peers 7\d\.\d to 7\d\.\d ms .* phases of a step", first), first
        assert "its 7 peers" in text_of(app) and "since 08:00:2" in text_of(app)
        await pilot.press(*["left"] * 25)
        await pilot.pause()
        assert "08:00:13, 27 s before now" in text_of(app)
        assert re.search(r"compute 7\d\.\d ms  peers 7", text_of(app)), "it was not slow at that time"
        await pilot.press("J")
        await pilot.pause()
        assert app.screen is not screen and "08:00:13, 27 s before now" in text_of(app)
        assert "compute 7" in text_of(app)
        await pilot.press("right", "escape")
        await pilot.pause()
        assert "before now" not in text_of(app) and app.screen.only == "charts"


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_lanes_look_as_before(snap_compare: Any, size: tuple[int, int]) -> None:
    assert snap_compare(pages.build("kill"), terminal_size=size, run_before=pressing("e", "L"))


def test_lanes_without_colours_look_as_before(snap_compare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(
        pages.build("several", 8, ascii=True), terminal_size=(80, 24), run_before=pressing("e", "L", "j")
    )


async def test_an_incident_in_its_lane_leads_to_the_task_at_that_moment_and_back() -> None:
    app = pages.build("kill")
    async with app.run_test(size=(120, 50)) as pilot:
        screen = await opened(pilot, "e", "L", "j")
        assert isinstance(screen, EventsScreen) and "was killed by SIGKILL" in text_of(app)
        await pilot.press("enter")
        await until(lambda: app.screen is not screen, pilot.pause)
        await still(pilot)
        assert app.screen.selected == (fakes.worker(1),) and "08:00:20, 20 s before now" in text_of(app)
        await pilot.press("escape", "escape")
        await until(lambda: app.screen is screen, pilot.pause)
        assert screen.lanes.display and screen.lanes.cursor and screen.lanes.cursor[0].name == "worker:1"
        await pilot.press("L")
        await pilot.pause()
        assert screen.events.display and not screen.lanes.display


async def test_a_task_alone_has_no_band_and_says_so() -> None:
    async with pages.build("healthy", 1).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert "without peers: this is the only worker" in text_of(pilot.app)
        assert "GPU 86%" in text_of(pilot.app)


async def test_numbers_alone_are_scrolled() -> None:
    app = pages.build("kill")
    async with app.run_test(size=(80, 12)) as pilot:
        screen = await opened(pilot, *TO_WORKER_1, "enter", "d")
        assert not screen.log_view.region.height and "was killed by SIGKILL" not in text_of(app)
        await pilot.press(*"j" * 20)
        await still(pilot)
        assert "was killed by SIGKILL" in text_of(app)
        await pilot.press("k", "d")
        await still(pilot)
        assert screen.log_view.region.height


async def test_the_log_is_searched() -> None:
    app = pages.build("healthy")
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot, "l")
        await pilot.press("slash", *"LINE 49", "enter")
        await pilot.pause()
        assert screen.log_view.match_position == (11, 11), "49 and 490 to 499, from the newest back"
        assert "11 of 11 lines found" in said(app, "#log-title")
        await pilot.press("N", "N")
        await pilot.pause()
        assert screen.log_view.match_position == (9, 11) and not screen.log_view.is_following
        assert "worker:0 line 497" in text_of(app)
        await pilot.press("n", "n", "n")
        await pilot.pause()
        assert screen.log_view.match_position == (1, 11), "after the last comes the first"
        assert "worker:0 line 49\n" in text_of(app)
        await pilot.press("escape")
        await pilot.pause()
        assert screen.log_view.match_position is None and app.screen is screen
        await pilot.press("slash", *"nowhere", "enter")
        assert "not found" in said(app, "#log-title")


async def test_the_log_is_wrapped() -> None:
    app = pages.build("healthy")
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot, "l")
        screen.log_view.extend(["a" * 100 + "end"])
        await pilot.pause()
        assert "aend" not in text_of(app)
        await pilot.press("w")
        await pilot.pause()
        assert "aend" in text_of(app) and screen.log_view.is_following
        await pilot.resize_terminal(120, 24)
        await still(pilot)
        assert "a" * 100 + "end" in text_of(app)


@pytest.mark.parametrize("keys", [("v",), ("l", "w")], ids=["steps", "log"])
async def test_a_scrollbar_hides_nothing(keys: tuple[str, ...]) -> None:
    app = pages.build("healthy", workers=30)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot, keys[0])
        if isinstance(screen, TaskScreen):
            screen.log_view.extend(["a" * 300] * 30)
        await pilot.press(*keys[1:])
        await pilot.pause()
        shown = screen.log_view if isinstance(screen, TaskScreen) else screen.bars
        lines = [shown.render_line(y).text for y in range(shown.size.height)]
        assert len({*lines}) > 1 and {line[-1] for line in lines} == {" "}


async def test_a_log_keeps_its_newest_lines_and_its_search() -> None:
    app = pages.build("healthy")
    async with app.run_test(size=(80, 24)) as pilot:
        log = (await opened(pilot, "l")).log_view
        log.search("line 499")
        log.extend([f"more {number}" for number in range(10_400)])
        assert log.match_position == (1, 1)
        log.extend([f"most {number}" for number in range(10_400)])
        assert log.match_position == (0, 0) and log.lines[-1] == "most 10399" and len(log.lines) <= 11_000


async def test_steps_say_who_entered_last_and_who_waited() -> None:
    app = pages.build("slow")
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, "v")
        assert isinstance(screen, StepsScreen)
        assert "worker:1 entered last; the others waited" in said(app, "#said")
        head, first, *_ = (screen.bars.render_line(y).text for y in range(5))
        assert head.count("step ") == 3 and "▲worker:1" in first and first.rstrip().endswith("0 us")
        assert screen.selected == (fakes.worker(1),)


async def test_steps_say_who_keeps_the_newest_from_its_end() -> None:
    app = pages.build("hang")
    async with app.run_test(size=(200, 40)) as pilot:
        screen = await opened(pilot, "v")
        assert said(app, "#said").startswith("✖ worker:1 has been stuck for")
        await pilot.press("left")
        assert screen.is_held and "entered last" in said(app, "#said")


async def test_steps_are_gone_through_one_by_one_and_held() -> None:
    app = pages.build("slow")
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, "v")
        newest = screen.last
        await pilot.press("left", "left", "right")
        assert screen.last == newest - 1 and screen.is_held
        assert "held, 1 before the newest" in said(app, "#how")
        await pilot.press("right", "right")
        assert screen.last == newest
        await pilot.press("left", "p")
        assert screen.last == newest and not screen.is_held
        await pilot.press("p")
        assert screen.is_held
        await pilot.press("z")
        assert screen.count == 5 and screen.bars.render_line(0).text.count("step ") == 5
        await pilot.press("z", "z")
        assert screen.count == 1


async def test_steps_are_drawn_anew_when_there_are_others() -> None:
    app = pages.build("slow")
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, "v")
        drawn = screen.bars.render_line(1)
        screen.redraw()
        assert screen.bars.render_line(1) is drawn
        await pilot.press("left")
        assert screen.bars.render_line(1) is not drawn


async def test_steps_are_sorted_and_lead_to_a_task() -> None:
    app = pages.build("slow")
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, "v")
        assert screen.bars.rows[0] == fakes.worker(1)
        await pilot.press("s")
        assert screen.bars.rows[0] == fakes.worker(0)
        await pilot.press("G", "k", "enter")
        await still(pilot)
        assert isinstance(app.screen, TaskScreen) and app.screen.selected == (fakes.worker(2),)
        await pilot.press("escape")
        await pilot.pause()
        await pilot.click(screen.bars, offset=(10, 2))
        assert screen.selected == (fakes.worker(1),)
        await pilot.press("v")
        await pilot.pause()
        assert app.screen is app.cluster


async def test_a_thousand_workers_are_scrolled() -> None:
    app = pages.build("cut", workers=300)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, "v")
        await pilot.press("G")
        await pilot.pause()
        assert len(screen.bars.rows) >= 299 and screen.bars.scroll_offset.y > 250
        begin = time.process_time()
        for _ in range(10):
            screen.bars.action_move(-1)
            [screen.bars.render_line(y) for y in range(screen.bars.size.height)]
        assert (time.process_time() - begin) / 10 < 0.05


async def test_events_show_their_evidence() -> None:
    app = pages.build("slow")
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, "e")
        assert isinstance(screen, EventsScreen)
        assert "straggler" in text_of(app) and not screen.query_one(VerticalScroll).display
        await pilot.press("slash", *"kind:straggler subject:worker:1", "enter", "enter")
        await pilot.pause()
        text = text_of(app)
        assert "severity" in text and "since" in text and "cause" in text
        assert screen.selected == (fakes.worker(1),)
        await pilot.press("J", "K", "escape", "escape")
        assert app.screen is screen
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.cluster


async def test_events_are_filtered() -> None:
    app = pages.build("kill")
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, "e")
        every = len(screen.events.rows)
        await pilot.press("f", "f", "f")
        assert screen.least == "critical" and 0 < len(screen.events.rows) < every
        assert f"of {every} events   critical" in said(app, "#how")
        await pilot.press("f", "slash", *"kind:crash subject:worker:1")
        await pilot.pause()
        assert len(screen.events.rows) == 2 and {row.subject for row in screen.events.rows} == {"worker:1"}
        await pilot.press("enter", "g", "k")
        assert screen.events.cursor is screen.events.rows[0]
        await pilot.press("j", "G")
        assert screen.events.cursor is screen.events.rows[-1]
        await pilot.press("slash", *" nothing at all", "enter")
        assert not screen.events.rows and "0 of" in said(app, "#how") and "nothing at all" in said(app, "#how")
        await pilot.press("escape")
        assert len(screen.events.rows) == every


async def test_advice_tells_gains_with_their_models() -> None:
    app = pages.build("slow")
    async with app.run_test(size=(200, 60)) as pilot:
        screen = await opened(pilot, "A")
        assert isinstance(screen, AdviceScreen)
        text = text_of(app)
        assert "First, what is wrong" in text and "worker:1 as fast as the others" in text
        assert "half the bytes" in text and "ring all-reduce" in text
        assert "8 workers: " in text and "of the ideal" in text and "4 now" in text


async def test_advice_is_scrolled_and_left() -> None:
    app = pages.build("slow")
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "A")
        assert "What more workers would bring" not in text_of(app)
        await pilot.press("pagedown", "j", "k")
        await still(pilot)
        assert "What more workers would bring" in text_of(app)
        await pilot.press("pageup", "e")
        await still(pilot)
        assert isinstance(app.screen, EventsScreen) and len(app.screen_stack) == 3
        await pilot.press("e")
        await pilot.pause()
        assert app.screen is app.cluster
