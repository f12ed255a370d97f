"""The keys of the Cluster screen, and of the heat map and the picker that it opens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import fakes
import pytest
from textual.widgets import Input, Static
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import FrameArrived, LinkState
from tfscale.console.engine.model import Link
from tfscale.console.engine.state import ClusterState
from tfscale.console.settings.view_state import View, ViewFile
from tfscale.console.tui.app import ConsoleApp
from tfscale.console.tui.dialogs.column_picker import PickerScreen
from tfscale.console.tui.screens.heat_screen import HeatScreen
from tfscale.console.tui.screens.task_screen import TaskScreen
from tfscale.console.tui.widgets.charts.heat_map import HeatMap
from tfscale.console.tui.widgets.navigation.key_bar import KeyBar, Legend
from tfscale.console.tui.widgets.panes.cluster_summary import Metrics, Title
from tfscale.console.tui.widgets.panes.headline_pane import Headline
from tfscale.console.tui.widgets.panes.history_strip import HistoryStrip
from tfscale.console.tui.widgets.panes.task_detail import Detail
from tfscale.console.tui.widgets.side.log_tail import LogTail
from tfscale.console.tui.widgets.side.side_panel import SidePanel
from tfscale.console.tui.widgets.table.task_columns import COLUMNS, USUAL
from tfscale.core.records.training import Training
from waiting import settled, until


def build(workers: int = 12, view_file: ViewFile | None = None, **options: Any) -> ConsoleApp:
    cluster = fakes.spec(workers)
    source = fakes.ScriptedSource(cluster, fakes.gpu_events(cluster))
    engine = Engine(source, lambda: ClusterState(cluster, fakes.FakeAnalysis(fakes.straggler_findings(cluster))))
    return ConsoleApp(engine, fakes.FakeCommands(), view_file=view_file, **options)


def rows(app: ConsoleApp) -> list[str]:
    table = app.cluster.table
    return [table.render_line(y).text.rstrip() for y in range(1, table.size.height)]


def status(app: ConsoleApp) -> str:
    return app.cluster.legend.status


async def test_s_offers_who_needs_a_look_first_then_every_column() -> None:
    app = build()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        seen = [""]
        while seen[-1] != "flag":
            await pilot.press("s", "enter")
            seen.append(app.cluster.table.order.sort)
        assert seen[1:3] == ["lag", "task"] and "step" in seen and "time" in seen
        assert "worker:1 " in rows(app)[0] and app.cluster.table.cursor == fakes.worker(1)
        await pilot.press("s", "enter")
        assert status(app) == "sorted by lag"


async def test_the_culprit_is_first_and_the_cursor_is_on_it_until_it_is_moved() -> None:
    app = build(40)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        table, snapshot = app.cluster.table, app.cluster.snapshot
        assert "worker:1 " in rows(app)[0] and "worker:0 " in rows(app)[1] and "worker:2 " in rows(app)[2]
        assert snapshot is not None and table.cursor == fakes.worker(1)
        app.cluster.snapshot = replace(
            snapshot,
            findings=fakes.healthy_findings(fakes.spec(40)),
            tasks=tuple(replace(view, diagnoses=()) for view in snapshot.tasks),
        )
        assert "worker:0 " in rows(app)[0] and table.cursor == fakes.worker(0)


@pytest.mark.parametrize("size", [(80, 24), (60, 15)])
async def test_the_cursor_stays_in_view_wherever_its_row_goes(size: tuple[int, int]) -> None:
    app = build(64)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        table, snapshot = app.cluster.table, app.cluster.snapshot
        assert snapshot is not None
        await pilot.press("s", "enter")
        for task in (fakes.worker(1), fakes.worker(63)):
            table.go_to(task)
            for lag in (None, 9.0, 1e-6):
                app.cluster.snapshot = replace(
                    snapshot,
                    tasks=tuple(
                        replace(view, summary=replace(view.summary, lag=lag)) if view.task == task else view
                        for view in snapshot.tasks
                    ),
                )
                await pilot.pause()
                assert table.cursor == task
                assert any(f"{task} " in row for row in rows(app)), (task, lag)


async def test_i_turns_the_order_around() -> None:
    app = build()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await pilot.press("i")
        assert "worker:1 " in rows(app)[11] and "flag↑" in app.cluster.table.render_line(0).text
        await pilot.press("i", "s", "enter", "s", "enter", "i")
        assert "worker:11" in rows(app)[0] and "task↑" in app.cluster.table.render_line(0).text


async def test_a_click_on_a_heading_sorts_and_another_turns_it_around() -> None:
    app = build()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        heading = app.cluster.table.render_line(0).text
        await pilot.click(app.cluster.table, offset=(heading.index("task"), 0))
        assert app.cluster.table.order.sort == "task" and "worker:0 " in rows(app)[0]
        await pilot.click(app.cluster.table, offset=(heading.index("task"), 0))
        assert app.cluster.table.order.is_reversed


async def test_a_filter_that_cannot_be_understood_says_why_and_changes_nothing() -> None:
    app = build()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("slash", *"lag>100")
        assert status(app) == "1 of 12" and not app.screen.query_one(KeyBar).display
        await pilot.press("enter")
        assert status(app) == "1 of 12 with lag>100" and app.screen.query_one(KeyBar).display
        assert len([row for row in rows(app) if "worker" in row]) == 1
        await pilot.press("slash", *"parsecs")
        wrong = app.screen.query_one("#wrong", Static)
        assert wrong.display and "'100parsecs' is no number for lag" in str(wrong.render())
        assert status(app) == "1 of 12"
        await pilot.press("escape")
        assert not wrong.display and not app.screen.query_one(Input).display and status(app) == ""


async def test_space_marks_one_and_a_all_that_are_shown() -> None:
    app = build()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("space", "space")
        assert status(app) == "2 marked" and "◆" in rows(app)[0] and "◆" not in rows(app)[2]
        await pilot.press("slash", *"worker:1", "enter", "a")
        assert status(app) == "3 of 12 with worker:1, 4 marked"
        await pilot.press("a")
        assert status(app) == "3 of 12 with worker:1, 1 marked"
        await pilot.press("escape")
        assert status(app) == ""


async def test_o_groups_by_host_and_by_role_and_groups_close() -> None:
    app = build(3)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await pilot.press("o")
        assert status(app) == "by host" and "▾ node-01" in rows(app)[0] and "  worker:1" in rows(app)[1]
        await pilot.press("o")
        assert status(app) == "by role" and "▾ worker" in rows(app)[0] and "3/3 up" in rows(app)[0]
        assert "▲ 2.1x compute" in rows(app)[0]
        await pilot.press("enter")
        assert "▸ worker" in rows(app)[0] and "worker:0" not in "".join(rows(app))
        await pilot.press("right")
        assert "worker:2" in rows(app)[3]
        await pilot.press("down", "down", "left")
        assert app.cluster.table.selected == tuple(map(fakes.worker, range(3)))
        await pilot.press("left")
        assert "▸ worker" in rows(app)[0]
        await pilot.press("o")
        assert status(app) == "" and "worker:1" in rows(app)[0]


async def test_moving_keys_move_by_a_row_a_page_and_to_the_ends() -> None:
    app = build(200)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        table = app.cluster.table

        def at() -> int:
            assert table.cursor is not None
            return table.cursor.index

        await pilot.press("s", "enter", "s", "enter", "j", "down", "k", "up", "j")
        assert at() == 1
        await pilot.press("pagedown")
        assert at() == 1 + table.size.height - 2
        await pilot.press("pageup")
        assert at() == 1
        await pilot.press("G")
        assert at() == 199 and "worker:199" in rows(app)[-1]
        await pilot.press("g")
        assert at() == 0 and "worker:0" in rows(app)[0]
        await pilot.press("end", "home")
        assert at() == 0


async def test_only_rows_in_view_are_drawn_and_a_key_draws_two(monkeypatch: pytest.MonkeyPatch) -> None:
    app = build(1000)
    async with app.run_test(size=(200, 60)) as pilot:
        await settled(pilot)
        table = app.cluster.table
        # New numbers are drawn a few lines at a time: none of them now.
        await pilot.press("p")
        await until(lambda: table._until >= table.size.height, pilot.pause)
        drawn: list[object] = []
        draw = table._drawing.row

        def counted(*args: Any, **options: Any) -> Any:
            drawn.append(args[0])
            return draw(*args, **options)

        monkeypatch.setattr(table._drawing, "row", counted)
        await pilot.press("j")
        await pilot.pause()
        assert len(drawn) == 2


async def test_a_hidden_screen_shows_the_newest_when_it_is_seen_again() -> None:
    app = build()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        before = app.cluster.snapshot
        assert before is not None
        await pilot.press("v")
        newest = replace(before, at=before.at + 60)
        app.snapshot_taken(newest)
        await until(lambda: app.screen.snapshot.at >= newest.at, pilot.pause)
        assert app.cluster.snapshot.at < newest.at
        await pilot.press("question_mark")
        later = replace(before, at=before.at + 120)
        app.snapshot_taken(later)
        await until(lambda: app.screen_stack[-2].snapshot.at >= later.at, pilot.pause)
        await pilot.press("escape", "escape")
        await until(lambda: app.cluster.snapshot.at >= later.at, pilot.pause)


async def test_c_chooses_columns_and_they_are_remembered(tmp_path: Path) -> None:
    path = tmp_path / "console.json"
    app = build(view_file=ViewFile.at(path))
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await pilot.press("c")
        assert isinstance(app.screen, PickerScreen)
        names = [column.name for column in COLUMNS]
        await pilot.press(*["j"] * names.index("gen"), "k", "down", "space")
        assert "gen" not in app.cluster.table.chosen_columns
        await pilot.press(*["j"] * (names.index("heat") - names.index("gen")), "space", "escape")
        assert app.screen is app.cluster and "heat" in app.cluster.table.columns
        await pilot.press("i", "t")
    kept = ViewFile.at(path).view
    assert kept.columns is not None and "heat" in kept.columns and "gen" not in kept.columns
    assert (kept.sort, kept.is_reversed, kept.theme) == ("flag", True, "tfscale-light")
    again = build(view_file=ViewFile.at(path))
    async with again.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert again.theme == "tfscale-light" and "worker:1 " in rows(again)[11]
        assert "90 °C" in rows(again)[11]
        await pilot.press("c", "d", "c")
        assert again.cluster.table.chosen_columns == USUAL
    assert ViewFile.at(path).view.columns is None


async def test_the_norm_of_the_gradients_is_a_column_that_c_offers() -> None:
    cluster = fakes.spec(2)
    events = [
        replace(event, frame=replace(event.frame, training=Training(grad_norm=1.25 + event.task.index)))
        for event in fakes.gpu_events(cluster)
        if isinstance(event, FrameArrived)
    ]
    source = fakes.ScriptedSource(cluster, events)
    engine = Engine(source, lambda: ClusterState(cluster, fakes.FakeAnalysis(fakes.straggler_findings(cluster))))
    app = ConsoleApp(engine, fakes.FakeCommands())
    async with app.run_test(size=(159, 40)) as pilot:
        await settled(pilot)
        assert "grad_norm" not in app.cluster.table.columns
        at = [column.name for column in COLUMNS].index("grad_norm")
        await pilot.press("c", *["j"] * at, "space")
        chosen = str(app.screen.query_one("#columns", Static).render()).splitlines()[1 + at]
        assert chosen.split()[1:3] == ["◆", "grad_norm"]
        await pilot.press("escape")
        assert app.cluster.table.columns[-2:] == ("grad_norm", "flag")
        assert "2.25" in rows(app)[0] and "1.25" in rows(app)[1]


async def test_a_mouse_picks_columns_too() -> None:
    app = build()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await pilot.press("c")
        await pilot.click("#columns", offset=(5, 3))
        assert "host" not in app.cluster.table.chosen_columns


async def test_a_view_of_a_column_that_is_gone_is_the_usual_one() -> None:
    app = build(view_file=ViewFile(view=View(sort="shoe size", group="colour", measure="charm", theme="plaid")))
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert app.cluster.table.order.sort == "flag" and "worker:1" in rows(app)[0]


async def test_what_cannot_be_remembered_is_said() -> None:
    app = build(view_file=ViewFile(Path("/proc/nowhere/console.json")))
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("s", "enter")
        await pilot.pause()
        assert app.cluster.table.order.sort == "lag"
        assert any("could not be saved" in notification.message for notification in app._notifications)


async def test_h_opens_the_heat_map_where_every_key_works() -> None:
    app = build(40)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("h")
        screen = app.screen
        assert isinstance(screen, HeatScreen)
        heat = screen.map
        assert heat.cursor == 1 and "worker:1 on node-01" in heat.description().plain
        assert "▲" in "".join(heat.render_line(y).text for y in range(heat.size.height))
        await pilot.press("right", "left", "down")
        assert heat.cursor > 1
        await pilot.press("up", "j", "k", "G")
        assert heat.cursor == 39
        await pilot.press("g", "pagedown", "pageup", "end", "home")
        assert heat.cursor == 0
        await pilot.press("m")
        assert heat.measure == "wait" and "waiting for somebody slower" in heat.legend().plain
        await pilot.press("M", "u")
        assert heat.by_gpu and heat.measure == "gpu" and "GPU 0" in heat.description().plain
        await pilot.press("m")
        assert heat.measure == "heat"
        await pilot.press("u", "enter")
        assert isinstance(app.screen, TaskScreen)
        await pilot.press("escape", "h")
        assert app.screen is app.cluster
        await pilot.press("h")
        assert isinstance(app.screen, HeatScreen) and app.screen.map.measure == "heat"


async def test_a_mouse_moves_over_the_heat_map() -> None:
    app = build(8)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("h")
        await pilot.click(HeatMap, offset=(30, 0))
        assert isinstance(app.screen, HeatScreen) and app.screen.map.cursor == 2


async def test_a_thousand_tasks_fit_on_one_heat_map() -> None:
    app = build(1000)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await pilot.press("h")
        await pilot.pause()
        assert isinstance(app.screen, HeatScreen)
        assert app.screen.map.virtual_size.height <= app.screen.map.size.height


async def test_new_numbers_of_many_rows_come_some_lines_after_the_others() -> None:
    app = build(60)
    async with app.run_test(size=(120, 60)) as pilot:
        await settled(pilot)
        before, snapshot = rows(app), app.cluster.snapshot
        lost = Link(LinkState.DOWN, "gone", 1.0)
        app.cluster.snapshot = replace(snapshot, tasks=tuple(replace(view, link=lost) for view in snapshot.tasks))
        first = rows(app)
        assert "agent down" in first[0] and first[-1] == before[-1]
        for _ in range(100):
            if not set(before) & set(rows(app)):
                break
            await pilot.pause(0.02)
        assert all("agent down" in row for row in rows(app))


async def test_without_colour_shades_and_letters_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = build(100, ascii=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        for widget in (Title, Headline, Metrics, Legend, KeyBar):
            assert str(app.screen.query_one(widget).render()).isascii(), widget
        assert all(row.isascii() for row in rows(app))
        await pilot.press("h")
        await pilot.pause()
        assert isinstance(app.screen, HeatScreen)
        heat = app.screen.map
        shown = [heat.render_line(y).text for y in range(heat.size.height)]
        assert all(line.isascii() for line in shown) and "!" in "".join(shown)
        assert "#" in heat.legend().plain and heat.legend().plain.isascii() and heat.description().plain.isascii()


@pytest.mark.parametrize("keys", [[], ["h"], ["c"], ["o"]])
async def test_no_size_breaks_a_screen(keys: list[str]) -> None:
    app = build(30)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press(*keys)
        for size in ((200, 60), (40, 10), (81, 25), (10, 3), (120, 40), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        assert app.is_running


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", ["heat", "gpus", "columns", "groups", "filter"])
def test_it_looks_as_before(snap_compare: Any, name: str, size: tuple[int, int]) -> None:
    keys = {
        "heat": ["h"],
        "gpus": ["h", "u", "m"],
        "columns": ["c"],
        "groups": ["o", "o"],
        "filter": ["slash", *"step>"],
    }[name]

    async def press(pilot: Any) -> None:
        await settled(pilot)
        await pilot.press(*keys)
        await pilot.pause()

    assert snap_compare(build(24 if name != "heat" else 300), terminal_size=size, run_before=press)


async def test_a_snapshot_that_comes_while_the_console_ends_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    app = build()

    def come(_: Metrics) -> None:
        app.snapshot_taken(replace(app._shown, at=app._shown.at + 1))

    monkeypatch.setattr(Metrics, "on_unmount", come, raising=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        before = app._shown.at
    assert app._shown.at == before


async def test_beside_a_wide_table_are_the_culprit_and_then_whoever_is_chosen() -> None:
    app = build(12)
    async with app.run_test(size=(200, 50)) as pilot:
        await settled(pilot)
        panel, log = app.screen.query_one(SidePanel), app.screen.query_one(LogTail)
        assert "worker:1 " in str(panel.query_one(Detail).render()).splitlines()[0]
        await until(lambda: "worker:1 line 99" in str(log.render()))
        await pilot.press("j", "j", "j")
        await until(lambda: "worker:3 " in str(panel.query_one(Detail).render()).splitlines()[0])
        assert panel.query_one(HeatMap).spot.view.task == fakes.worker(3)
        layouts: list[object] = []
        app.screen.screen_layout_refresh_signal.subscribe(app.screen, layouts.append)
        app._engine.source.tick()
        await settled(pilot)
        assert not layouts, "a second that changes numbers alone lays nothing out anew"
        await pilot.resize_terminal(159, 50)
        await pilot.pause()
        assert not panel.display


async def test_a_finding_moves_no_figure_and_leaves_the_strip_in_its_place() -> None:
    app = build(12)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        metrics, snapshot = app.screen.query_one(Metrics), app.cluster.snapshot
        assert snapshot is not None
        slow, at = str(metrics.render()), metrics.region.y
        healthy = fakes.healthy_findings(fakes.spec(12))
        app.cluster.snapshot = replace(snapshot, findings=healthy)
        await settled(pilot)
        fast = str(metrics.render())
        for name in ("steps/s", "ex/s", "a step", "eff.", "loss", "network"):
            assert slow.find(name) == fast.find(name), name
        assert " lost" in slow and " lost" not in fast
        assert app.screen.query_one(Headline).size.height == 3
        assert not app.screen.query_one(Headline).has_class("news")
        app.cluster.snapshot = snapshot
        assert app.screen.query_one(Headline).has_class("news")
        await until(lambda: not app.screen.query_one(Headline).has_class("news"))
        await settled(pilot)
        assert metrics.region.y == at


@pytest.mark.parametrize("workers", [64, 1000])
@pytest.mark.parametrize("size", [(80, 30), (160, 30), (120, 40)], ids=str)
async def test_the_table_keeps_its_room_below_the_strip(workers: int, size: tuple[int, int]) -> None:
    app = build(workers)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        shown = [row for row in rows(app) if "worker:" in row]
        assert "worker:1 " in shown[0] and len(shown) >= 8
        assert app.screen.query_one(HistoryStrip).display
