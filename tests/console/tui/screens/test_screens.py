"""Pictures of the screens, and the effects of their keys."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import fakes
import pages
import pytest
from textual.widgets import Input, Static
from tfscale.console.analysis.findings import Findings
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import Event
from tfscale.console.engine.state import ClusterState
from tfscale.console.sources.simulation.simulated_faults import Fault
from tfscale.console.sources.simulation.simulated_stack import stack_of
from tfscale.console.transport.channels import CommandError
from tfscale.console.transport.commands import Stack
from tfscale.console.tui.app import ConsoleApp
from tfscale.console.tui.dialogs.confirm import ConfirmScreen, wording
from tfscale.console.tui.dialogs.help_screen import HelpScreen
from tfscale.console.tui.dialogs.sort_picker import SortPicker
from tfscale.console.tui.dialogs.stack_screen import StackScreen
from tfscale.console.tui.screens.task_screen import TaskScreen
from tfscale.console.tui.widgets.navigation.key_bar import KeyBar
from tfscale.console.tui.widgets.panes.event_pane import EventPane
from tfscale.console.tui.widgets.panes.headline_pane import Headline
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Task
from tfscale.core.records.task_status import Stage
from waiting import settled, still, until

CASES: dict[str, tuple[Callable[[ClusterSpec], list[Event]], Callable[[ClusterSpec], Findings]]] = {
    "healthy": (fakes.healthy_events, fakes.healthy_findings),
    "straggler": (fakes.healthy_events, fakes.straggler_findings),
    "crashed": (fakes.killed_events, fakes.crash_findings),
    "down": (fakes.cut_events, fakes.cut_findings),
    **{kind: (fakes.healthy_events, partial(fakes.findings_of, kind)) for kind in fakes.DIAGNOSES},
}


def build(
    case: str = "straggler", workers: int = 3, commands: fakes.FakeCommands | None = None, **options: Any
) -> ConsoleApp:
    cluster = fakes.spec(workers)
    events, findings = CASES[case]
    source = fakes.ScriptedSource(cluster, events(cluster))
    engine = Engine(source, lambda: ClusterState(cluster, fakes.FakeAnalysis(findings(cluster))))
    return ConsoleApp(engine, commands or fakes.FakeCommands(), **options)


async def passed(pilot: Any) -> None:
    """Let a second pass, and wait until it is drawn."""
    pilot.app._engine.source.tick()
    await still(pilot)


def text_of(app: ConsoleApp) -> str:
    """Return all text on the screen, line by line."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def lines(app: ConsoleApp) -> list[str]:
    table = app.cluster.table
    return [table.render_line(y).text for y in range(table.size.height)]


@pytest.mark.parametrize("case", CASES)
def test_cluster_looks_as_before(snap_compare: Any, case: str) -> None:
    assert snap_compare(build(case), terminal_size=(120, 40), run_before=settled)


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (120, 40), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("case", ["healthy", "slow", "several", "still", "kill"])
def test_a_simulated_cluster_looks_as_before(snap_compare: Any, case: str, size: tuple[int, int]) -> None:
    assert snap_compare(pages.build(case, 8), terminal_size=size, run_before=settled)


def test_task_looks_as_before(snap_compare: Any) -> None:
    async def open_task(pilot: Any) -> None:
        await settled(pilot)
        await pilot.press("enter")
        await still(pilot)

    assert snap_compare(build(), terminal_size=(120, 40), run_before=open_task)


def test_confirmation_looks_as_before(snap_compare: Any) -> None:
    async def ask(pilot: Any) -> None:
        await settled(pilot)
        await pilot.press("r")
        await pilot.pause()

    assert snap_compare(build(), terminal_size=(80, 24), run_before=ask)


async def test_rows_say_state_step_and_flag_at_80_columns() -> None:
    app = build("straggler")
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        head, first, second, *_ = lines(app)
        assert "task" in head and "state" in head and "received" not in head
        assert "worker:1" in first and "▲ 2.1x compute" in first
        assert "worker:0" in second and "● running" in second and "▲" not in second and "step 1,203" in head


@pytest.mark.parametrize("workers", [1, 3, 8, 12, 20, 40])
async def test_rows_events_and_keys_fill_the_screen_and_no_more(workers: int) -> None:
    app = build("straggler", workers)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("escape")  # from the page of a sole task
        for width, height in ((80, 24), (100, 31), (120, 40), (200, 60)):
            await pilot.resize_terminal(width, height)
            await pilot.press("slash", "escape")
            await pilot.pause()
            assert app.screen.query_one(KeyBar).region.bottom == height and not app.screen.max_scroll_y
            assert app.screen.query_one(EventPane).outer_size.height >= 3


async def test_all_columns_where_they_fit() -> None:
    app = build("straggler")
    async with app.run_test(size=(260, 50)) as pilot:
        await settled(pilot)
        head, first, *_ = lines(app)
        for name in ("host", "state", "up", "gen", "step 1,203", "time", "CPU 61%", "memory", "received", "sent"):
            assert name in head
        assert "node-01" in first and "118 MB/s" in first and "▲ 2.1x compute" in first


async def test_the_dead_and_the_unreachable_stay_as_rows() -> None:
    crashed = build("crashed")
    async with crashed.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        _, first, second, third, *_ = lines(crashed)
        assert "✖ SIGKILL" in first and "✖ exited 1" in second and "✖ exited 1" in third
    cut = build("down")
    async with cut.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        first = lines(cut)[1]
        assert "◌ agent down" in first and "△ down 12 s, retrying…" in first


async def test_no_colour_and_ascii_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = build("straggler", ascii=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        first = lines(app)[1]
        assert first.isascii()
        assert "* running" in first and "! 2.1x compute" in first and "cccc" in first


async def test_restart_is_confirmed_and_names_the_gang() -> None:
    commands = fakes.FakeCommands()
    app = build("straggler", commands=commands)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("r")
        assert isinstance(app.screen, ConfirmScreen)
        assert [str(task) for task in app.screen.question.touched] == ["worker:0", "worker:1", "worker:2"]
        await pilot.press("escape")
        assert commands.orders == []
        await pilot.press("r", "y")
        await until(lambda: commands.orders, pilot.pause)
        assert commands.orders == [("restart", (fakes.worker(1),), 1)]
        await passed(pilot)
        assert app.cluster.snapshot is not None and app.cluster.snapshot.command is not None
        assert app.cluster.snapshot.command.stage is Stage.DONE


async def test_the_question_of_a_start_says_which_tasks_run_already() -> None:
    app = build("straggler", commands=fakes.FakeCommands())
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("S")
        assert isinstance(app.screen, ConfirmScreen)
        asked = wording(app.screen.question, app.appearance).plain
        assert asked.endswith("worker:1 runs already; a start stops nothing.")


@pytest.mark.parametrize("size", [(60, 15), (60, 8), (80, 24)])
async def test_a_question_about_64_workers_shows_its_price_and_buttons_and_no_has_the_focus(
    size: tuple[int, int],
) -> None:
    app = build("straggler", 64)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        await pilot.press("r")
        assert isinstance(app.screen, ConfirmScreen)
        focused: list[str] = []
        app.screen.watch(app.screen, "focused", lambda widget: focused.append(str(getattr(widget, "label", ""))))
        await still(pilot)
        assert set(focused) - {""} == {"No (n)"}
        seen = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
        assert all(word in seen for word in ("Restart all 64 workers?", "No (n)", "Restart (y)"))
        assert size[1] == 8 or "are repeated" in seen
        await pilot.press("t")
        await still(pilot)
        seen = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
        assert "worker:0, worker:1" in seen and "Restart (y)" in seen


async def test_an_observer_is_not_asked_and_may_look_at_stacks() -> None:
    commands = fakes.FakeCommands()
    commands.refusal = "its certificate is that of an observer, which gives no orders"
    app = build(commands=commands)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        named = {key for keys, _ in app.screen.query_one(KeyBar).keys for key in keys.split()}
        await pilot.press("r", "x", "S", "P")
        assert app.screen is app.cluster and "r" not in named
        await pilot.press("b")
        assert isinstance(app.screen, StackScreen)


async def test_enter_on_the_question_cancels() -> None:
    commands = fakes.FakeCommands()
    app = build("straggler", commands=commands)
    async with app.run_test() as pilot:
        await settled(pilot)
        await pilot.press("r", "enter")
        await still(pilot)
        assert commands.orders == [] and not isinstance(app.screen, ConfirmScreen)


async def test_a_refused_restart_is_one_line_in_the_headline() -> None:
    why = "cannot restart: the agent of worker:0 at 10.0.0.2:7070: connection refused"
    app = build("straggler", commands=fakes.FakeCommands(why))
    async with app.run_test() as pilot:
        await settled(pilot)
        await pilot.press("r", "y")
        await still(pilot)
        await passed(pilot)
        snapshot = app.cluster.snapshot
        assert snapshot is not None and snapshot.command is not None
        assert snapshot.command.stage is Stage.FAILED and snapshot.command.message == why
        assert why in snapshot.timeline[-1].text


async def test_marks_make_a_command_take_several() -> None:
    commands = fakes.FakeCommands()
    app = build("healthy", workers=4, commands=commands)
    async with app.run_test() as pilot:
        await settled(pilot)
        await pilot.press("space", "space", "x", "y")
        await until(lambda: commands.orders, pilot.pause)
        assert commands.orders == [("stop", (fakes.worker(0), fakes.worker(1)), 1)]


async def test_filter_sort_and_clear() -> None:
    app = build("straggler", workers=12)
    async with app.run_test() as pilot:
        await settled(pilot)
        await pilot.press("slash", *"straggler", "enter")
        assert ["worker" in line for line in lines(app)].count(True) == 1
        await pilot.press("escape")
        assert app.screen.query_one(Input).display is False
        await pilot.press("s", "enter", "s", "enter")
        assert "worker:0 " in lines(app)[1]


async def test_one_key_and_a_click_on_the_sentence_lead_to_the_culprit() -> None:
    app = build("straggler", workers=40)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        table = app.cluster.table
        for way in ("key", "click"):
            await pilot.press("slash", *"worker:3", "enter", "G")
            assert not table.shows(fakes.worker(1)) and table.cursor == fakes.worker(39)
            await (pilot.press("exclamation_mark") if way == "key" else pilot.click(Headline))
            await pilot.pause()
            assert table.cursor == fakes.worker(1) and table.shown_count == 40
        await pilot.press("e", "exclamation_mark")
        assert app.screen is app.cluster and table.cursor == fakes.worker(1)


async def test_the_page_of_a_task_turns_to_the_rows_beside_it_and_to_the_culprit() -> None:
    app = build("straggler", workers=12)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("enter", "c")
        for key, index in (("J", 0), ("J", 2), ("K", 0), ("exclamation_mark", 1), ("K", 11)):
            await pilot.press(key)
            await pilot.pause()
            assert isinstance(app.screen, TaskScreen)
            assert app.screen.selected == (fakes.worker(index),) and app.screen.only == "charts", key
        await pilot.press("slash", "left")
        assert app.screen.selected == (fakes.worker(11),)
        await pilot.press("escape", "escape")
        await until(lambda: app.screen is app.cluster, pilot.pause)
        assert app.cluster.table.cursor == fakes.worker(11)


async def test_where_nobody_is_to_blame_the_key_says_so() -> None:
    app = build("healthy")
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("exclamation_mark")
        assert [each.message for each in app._notifications] == ["no task is to blame at present"]


async def test_pause_holds_the_picture() -> None:
    app = build("healthy")
    async with app.run_test() as pilot:
        await settled(pilot)
        await pilot.press("p")
        held = app.cluster.snapshot
        await passed(pilot)
        assert app.cluster.snapshot is held
        assert " PAUSED  08:00:00" in str(app.cluster.title_line.render())
        await pilot.press("p")
        await passed(pilot)
        assert app.cluster.snapshot is not held


async def test_log_follows_pauses_and_comes_back() -> None:
    app = build("healthy")
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("j", "l")
        await still(pilot)
        screen = app.screen
        assert isinstance(screen, TaskScreen)
        assert screen.log_view.lines[-1] == "worker:1 line 499"
        assert screen.log_view.scroll_offset.y == screen.log_view.max_scroll_y
        await pilot.press("k")
        await pilot.pause()
        assert not screen.log_view.is_following
        await pilot.press("G", "p")
        screen.post_message(TaskScreen.LinesRead(("held",)))
        await pilot.pause()
        assert screen.log_view.lines[-1] != "held"
        await pilot.press("p", "escape")
        await pilot.pause()
        assert app.screen is app.cluster


def test_stack_looks_as_before(snap_compare: Any) -> None:
    async def ask(pilot: Any) -> None:
        await settled(pilot)
        await pilot.press("enter")
        await still(pilot)
        await pilot.press("b")
        await still(pilot)

    assert snap_compare(build(), terminal_size=(80, 24), run_before=ask)


class StacksOfAHang(fakes.FakeCommands):
    """Commands whose tasks stand where worker:1 hangs; worker:2 is gone."""

    async def stack(self, task: Task) -> Stack:
        if task == fakes.worker(2):
            raise CommandError(f"no stack: the agent of {task} does not answer")
        own = '  File "/venv/lib/python3.11/site-packages/tfscale/trainer/probe/hooks/wrapped.py", line 4 in call'
        text = stack_of(task, (Fault.parse("worker:1=hang@0s"),), 50.0)
        return Stack(fakes.NOW, 4242, text.replace("\n\n", f"\n{own}\n\n"))


async def test_equal_stacks_of_all_tasks_are_one() -> None:
    app = build("straggler", workers=12, commands=StacksOfAHang())
    async with app.run_test(size=(120, 50)) as pilot:
        await settled(pilot)
        await pilot.press("exclamation_mark", "b")
        await still(pilot)
        shown = text_of(app)
        assert "user/train.py:41 on_train_batch_end" in shown and "threading.py:331 wait" in shown
        assert "1 call of tfscale left out" in shown and "hooks/wrapped.py" not in shown
        await pilot.press("a")
        await until(lambda: "different stacks" in text_of(app), pilot.pause)
        shown = text_of(app)
        assert "12 tasks, 3 different stacks" in shown
        assert "10 tasks: worker:0, worker:3, worker:4" in shown and "1 task: worker:1 " in shown
        assert "no stack: the agent of the task does not answer" in shown


async def test_why_there_is_no_stack_is_said_in_its_place() -> None:
    app = build("healthy", commands=fakes.FakeCommands(error="the task does not run"))
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("j", "enter")
        await still(pilot)
        await pilot.press("b")
        await still(pilot)
        assert isinstance(app.screen, StackScreen)
        assert "the task does not run" in str(app.screen.query_one(Static).render())
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(app.screen, TaskScreen)


async def test_mouse_selects_and_help_and_theme_work() -> None:
    app = build("healthy")
    async with app.run_test() as pilot:
        await settled(pilot)
        await pilot.click(app.cluster.table, offset=(10, 2))
        assert app.cluster.table.cursor == fakes.worker(1)
        await pilot.press("t")
        assert app.theme == "tfscale-light"
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("escape")
        assert app.screen is app.cluster


async def test_a_thousand_rows_repaint_within_budget() -> None:
    app = build("healthy", workers=1000)
    async with app.run_test(size=(200, 50)) as pilot:
        await settled(pilot)
        table = app.cluster.table
        spent = []
        for _ in range(20):
            begin = time.process_time()
            table.action_move(1)
            _draw(table.size.height, table.render_line)
            spent.append(time.process_time() - begin)
            await asyncio.sleep(0)
        assert sorted(spent)[18] < 0.05


def _draw(height: int, line: Callable[[int], object]) -> Sequence[object]:
    return [line(y) for y in range(height)]


def test_only_the_tui_imports_textual() -> None:
    root = Path(__file__).parents[4] / "console/tfscale/console"
    imports = re.compile(r"^\s*(?:from|import) textual\b", re.MULTILINE)
    users = {path.relative_to(root).parts[0] for path in root.rglob("*.py") if imports.search(path.read_text())}
    assert users == {"tui"}


async def test_a_key_pressed_twice_closes_a_dialogue_and_nothing_below_it() -> None:
    app = build()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("s")
        await pilot.pause()
        picker = app.screen
        assert isinstance(picker, SortPicker)
        for name in ("task", "lag"):
            picker.dismiss(name)
        await still(pilot)
        assert app.screen is app.cluster and app.cluster.table.order.sort == "task"
