"""Every key on every screen does something that can be seen, and the help, the palette and the read-only console know
the same keys; every screen holds at every size, and with ASCII alone."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import fakes
import pages
import pytest
from simulated_runs import record, simulated
from textual.binding import Binding
from textual.command import CommandPalette
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Static
from tfscale.console import tui
from tfscale.console.engine.checkpoint_age import checkpoint_age
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.state import ClusterState
from tfscale.console.engine.state_factory import states
from tfscale.console.recording.recording_reader import Recording
from tfscale.console.settings.view_state import ViewFile
from tfscale.console.sources.recorded import Player
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.console.transport.commands import NoCommands, Stack
from tfscale.console.tui.app import ConsoleApp
from tfscale.console.tui.dialogs.column_picker import PickerScreen
from tfscale.console.tui.dialogs.help_screen import HelpScreen, own_bindings
from tfscale.console.tui.replay_app import ReplayApp
from tfscale.console.tui.screens.base_screen import ACTING, SnapshotScreen
from tfscale.console.tui.screens.events_screen import EventsScreen
from tfscale.console.tui.screens.heat_screen import HeatScreen
from tfscale.console.tui.screens.hosts_screen import HostsScreen
from tfscale.console.tui.screens.steps_screen import StepsScreen
from tfscale.console.tui.screens.task_screen import TaskScreen
from tfscale.console.tui.widgets.navigation.key_bar import KeyBar
from tfscale.console.tui.widgets.navigation.tab_line import PAGES, TabLine
from tfscale.core.cluster.task import Task
from waiting import picture, settled, still, until

SIZE = (100, 30)
EVERYWHERE = [binding for binding in ConsoleApp.BINDINGS if isinstance(binding, Binding)]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a folder of its own, since a key records into the current one."""
    monkeypatch.chdir(tmp_path)


class Talkative(fakes.FakeCommands):
    """Commands whose stacks are long enough to be scrolled."""

    async def stack(self, task: Task) -> Stack:
        taken = await super().stack(task)
        return taken._replace(text="\n".join([taken.text] * 20))


def build(**options: Any) -> ConsoleApp:
    cluster = fakes.spec(40)
    source = fakes.ScriptedSource(cluster, fakes.healthy_events(cluster))
    engine = Engine(source, lambda: ClusterState(cluster, fakes.FakeAnalysis(fakes.straggler_findings(cluster))))
    return ConsoleApp(engine, Talkative(), **options)


def no_more(_app: ConsoleApp) -> None:
    """Do nothing: the screen is ready as it is."""


@dataclass(frozen=True)
class Place:
    """A screen: the keys that lead to it, and the preparation by which each key has something to do."""

    keys: Sequence[str] = ()
    make_ready: Callable[[ConsoleApp], None] = no_more
    build: Callable[..., ConsoleApp] = build


def into_the_middle(app: ConsoleApp) -> None:
    app.cluster.table.action_move(24)
    app.cluster.table.action_mark()


def over_the_map(app: ConsoleApp) -> None:
    assert isinstance(app.screen, HeatScreen)
    app.screen.map.action_move(20, 0)


def unusual(app: ConsoleApp) -> None:
    assert isinstance(app.screen, PickerScreen)
    app.screen.action_move(5)
    app.screen.action_choose()


def up_the_log(app: ConsoleApp) -> None:
    assert isinstance(app.screen, TaskScreen)
    app.screen.log_view.extend([f"{number} " + "long " * 60 for number in range(60)])
    app.screen.call_after_refresh(app.screen.action_scroll, -40)


def found_in_the_log(app: ConsoleApp) -> None:
    up_the_log(app)
    assert isinstance(app.screen, TaskScreen)
    app.screen.call_after_refresh(app.screen.log_view.search, "line 49")


def into_the_steps(app: ConsoleApp) -> None:
    assert isinstance(app.screen, StepsScreen)
    app.screen.bars.action_move(24)


def into_the_events(app: ConsoleApp) -> None:
    assert isinstance(app.screen, EventsScreen)
    app.screen.events.action_move(-1)


def down_the_hosts(app: ConsoleApp) -> None:
    assert isinstance(app.screen, HostsScreen)
    app.screen.table.action_move(20)


def down(app: ConsoleApp) -> None:
    app.screen.query_one(VerticalScroll).scroll_relative(y=3, animate=False)


owning = partial(build, owns_run=True)
killed = partial(pages.build, "kill", 24)

PLACES = {
    "cluster": Place((), into_the_middle),
    "heat": Place(("h",), over_the_map),
    "columns": Place(("c",), unusual),
    "task": Place(("enter",), up_the_log),
    "log": Place(("l",), up_the_log),
    "found": Place(("l",), found_in_the_log),
    "charts": Place(("enter", "c")),
    "steps": Place(("v",), into_the_steps),
    "events": Place(("e",), into_the_events, killed),
    "advice": Place(("A",), down, killed),
    "hosts": Place(("6",), down_the_hosts),
    "stack": Place(("b",), down),
    "sort": Place(("s",)),
    "command": Place(("colon", "s", "down")),
    "confirm": Place(("r",)),
    "prompt": Place(("P",)),
    "leave": Place(("q",), build=owning),
    "help": Place(("question_mark",), down),
    "palette": Place(("ctrl+p",)),
}


async def come_to(pilot: Any, place: Place) -> None:
    await settled(pilot)
    await pilot.press(*place.keys)
    await still(pilot)
    place.make_ready(pilot.app)
    await pilot.pause()


def texts(app: ConsoleApp) -> str:
    """Return all characters on the screen."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def has_ended(app: ConsoleApp) -> bool:
    return not app.is_running or app._exit


async def has_changed(pilot: Any, before: object) -> bool:
    for _ in range(40):
        if has_ended(pilot.app) or picture(pilot.app) != before:
            return True
        await pilot.pause(0.02)
    return False


async def go_back(pilot: Any) -> None:
    """Go back to the first screen, with nothing typed into it and nothing marked."""
    app = pilot.app
    while app.screen is not app.cluster:
        app.pop_screen()
    await pilot.press("escape")


async def keys_at(place: Place) -> list[str]:
    app = place.build()
    async with app.run_test(size=SIZE) as pilot:
        await come_to(pilot, place)
        return [key for key, _ in own_bindings(app.screen)]


async def seen(place: Place, keys: Sequence[str]) -> set[str]:
    """Press each key at the place, until one of them ends the app; return those with a visible effect."""
    found = set()
    app = place.build()
    # Without notifications a test's screen has no toasts, by which some keys answer.
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        for key in keys:
            await go_back(pilot)
            await come_to(pilot, place)
            app.clear_notifications()
            before = await still(pilot)
            await pilot.press(key)
            if await has_changed(pilot, before):
                found.add(key)
            app._recording._tape.end()
            if has_ended(app):
                break
    return found


EVERY_DAY = ("cluster", "task")
"""Places that people see most; all keys of the others take three minutes of CPU."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in EVERY_DAY else pytest.mark.slow) for name in PLACES]
)
async def test_every_key_does_something_that_can_be_seen(name: str) -> None:
    keys = await keys_at(PLACES[name])
    if name != "cluster":
        # What the app itself does looks the same from there.
        same = {key for binding in EVERYWHERE for key in binding.key.split(",")}
        keys = [key for key in keys if key in ACTING or key not in same]
    found = await seen(PLACES[name], keys)
    # After some of them others have nothing left to do, as at the end of a list: they are tried alone.
    assert [key for key in keys if key not in found and not await seen(PLACES[name], [key])] == []


async def test_every_key_of_a_replay_does_something_that_can_be_seen(tmp_path: Path) -> None:
    path = record(tmp_path / "a.tfrec", simulated(20, 2, "worker:1=kill@9s"), simulated_spec(2), every=20)
    keys = ["p", "plus", "minus", "left_square_bracket", "right_square_bracket", "n", "N", "colon"]
    player = Player(Recording(path))
    app = ReplayApp(Engine(player, states(player.spec)), player, NoCommands("this is a replay"))
    async with app.run_test(size=SIZE) as pilot:
        await come_to(pilot, Place())
        await pilot.press("p")
        player.seek(fakes.NOW + 5)
        await until(lambda: app.cluster.snapshot is not None and app.cluster.snapshot.at == fakes.NOW + 5, pilot.pause)
        only_here = {key for key, _ in own_bindings(app.screen)} - set(await keys_at(Place()))
        assert only_here <= set(keys)
        for key in keys:
            before = await still(pilot)
            await pilot.press(key)
            assert await has_changed(pilot, before), key


def kinds(of: type) -> set[type]:
    """Return all classes of this kind that the tui's modules define."""
    root = Path(tui.__path__[0])
    names = (path.relative_to(root).with_suffix("").parts for path in root.rglob("*.py") if path.stem != "__init__")
    modules = (importlib.import_module(".".join([tui.__name__, *parts])) for parts in names)
    found = {value for module in modules for value in vars(module).values() if isinstance(value, type)}
    return {kind for kind in found if issubclass(kind, of) and kind.__module__.startswith(tui.__name__)}


async def test_every_screen_is_come_to_here() -> None:
    reached = set()
    for make in {place.build for place in PLACES.values()}:
        app = make()
        async with app.run_test(size=SIZE) as pilot:
            for place in (candidate for candidate in PLACES.values() if candidate.build is make):
                await go_back(pilot)
                await come_to(pilot, place)
                reached.add(type(app.screen))
    reached.discard(CommandPalette)
    shown = {kind for kind in kinds(Screen) if not kind.__subclasses__() or kind in reached}
    assert shown == reached


def test_every_binding_says_what_it_does() -> None:
    for kind in kinds(object):
        for binding in vars(kind).get("BINDINGS", ()):
            assert isinstance(binding, Binding) and binding.description, (kind, binding)


@pytest.mark.parametrize("name", ["cluster", "task", "steps"])
async def test_help_names_every_key_that_works_where_it_is_asked_for(name: str) -> None:
    app = build()
    async with app.run_test(size=SIZE) as pilot:
        await come_to(pilot, PLACES[name])
        bound = own_bindings(app.screen)
        of_screen = {
            key for each in type(app.screen).BINDINGS if isinstance(each, Binding) for key in each.key.split(",")
        }
        taken = of_screen & app.screen.active_bindings.keys() - dict(bound).keys()
        assert taken <= {"home", "end"}, (
            "a widget takes a key of its screen; with these two the log goes where g and G go"
        )
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        said = " ".join(str(app.screen.query_one(Static).render()).split())
        for key, active in bound:
            assert active.binding.description in said, key
        assert "a second back" not in said


@pytest.mark.parametrize("name", ["cluster", "task"])
async def test_read_only_has_no_key_that_reaches_into_a_task(name: str) -> None:
    place = replace(PLACES[name], build=lambda: build(read_only=True))
    assert ACTING & set(await keys_at(PLACES[name])) == ACTING
    assert ACTING & set(await keys_at(place)) == set()
    app = place.build()
    async with app.run_test(size=SIZE) as pilot:
        await come_to(pilot, place)
        before = app.screen
        assert not ACTING & {key for line in app.screen.query(KeyBar) for keys, _ in line.keys for key in keys.split()}
        await pilot.press(*ACTING)
        await pilot.press("ctrl+p", *"restart")
        await pilot.pause(0.3)
        await pilot.press("enter", "escape", "escape")
        await pilot.pause(0.1)
        assert app.screen is before or app.screen is app.cluster
        assert isinstance(app._orders._commands, Talkative) and app._orders._commands.orders == []


async def choose(pilot: Any, words: str) -> None:
    """Type into the palette, and take the first result."""
    await pilot.press("ctrl+p")
    assert isinstance(pilot.app.screen, CommandPalette)
    await pilot.press(*(("space" if char == " " else "colon" if char == ":" else char) for char in words))
    for _ in range(100):
        await pilot.pause(0.02)
        options = pilot.app.screen.query("CommandList").first()
        if options.option_count and words in str(options.get_option_at_index(0).prompt):
            break
    await pilot.press("enter")
    await still(pilot)


async def test_the_palette_does_what_keys_do_and_finds_tasks_sorts_and_themes() -> None:
    app = build()
    async with app.run_test(size=SIZE) as pilot:
        await come_to(pilot, Place())
        await choose(pilot, "theme contrast")
        assert app.theme == "tfscale-contrast" and app.cluster.appearance.palette.background == "#000000"
        await choose(pilot, "go to worker:37")
        assert app.cluster.table.cursor == fakes.worker(37)
        await choose(pilot, "sort by lag")
        assert app.cluster.table.order.sort == "lag"
        await choose(pilot, "restart")
        assert "Restart all 40 workers?" in texts(app)


async def test_a_profile_is_asked_for_by_seconds_and_tells_where_it_is() -> None:
    app = build()
    async with app.run_test(size=(120, 40)) as pilot:
        await come_to(pilot, Place(("P",)))
        asked = str(app.screen.query_one(Static).render())
        assert "Profile worker:1 for how many seconds?" in asked and "profiles/worker-1 on node-01" in asked
        assert "Age of the last checkpoint: 1 m 35 s" in asked
        await pilot.press("backspace", "7", "enter")
        commands = app._orders._commands
        assert isinstance(commands, Talkative)
        await until(lambda: commands.profiled == [(fakes.worker(1), 7.0)], pilot.pause)
        await still(pilot)
        app._engine.source.tick()
        await still(pilot)
        assert app.cluster.snapshot is not None
        said = [moment.text for moment in app.cluster.snapshot.timeline]
        assert said[-1].startswith("profile done: 1.20 MB in /var") and not any("capturing" in text for text in said)
        assert "tensorboard --logdir" in "".join(str(notification.message) for notification in app._notifications)


async def test_while_a_recording_is_made_the_profiles_of_marked_tasks_are_fetched_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = build()
    async with app.run_test(size=(120, 40)) as pilot:
        await come_to(pilot, Place(("R", "space", "down", "space", "P")))
        asked = " ".join(str(app.screen.query_one(Static).render()).split())
        assert ".profiles, beside the recording" in asked
        await pilot.press("enter")
        await until(lambda: len(fetched(tmp_path)) == 2, pilot.pause)
        assert set(fetched(tmp_path)) == {1_200_000}
        await pilot.press("R")


def fetched(folder: Path) -> list[int]:
    """Return the sizes of the profiles beside a recording."""
    return [path.stat().st_size for path in folder.glob("*.profiles/plugins/profile/*/worker-*.xplane.pb")]


async def test_seconds_that_are_none_are_refused_without_asking_anybody() -> None:
    app = build()
    async with app.run_test(size=SIZE) as pilot:
        await come_to(pilot, Place(("P",)))
        await pilot.press("x", "enter")
        await still(pilot)
        commands = app._orders._commands
        assert isinstance(commands, Talkative) and commands.profiled == []
        assert any("is not a number" in notification.message for notification in app._notifications)


async def test_the_age_of_the_last_checkpoint_is_that_of_each_training() -> None:
    app = build()
    async with app.run_test(size=SIZE) as pilot:
        await come_to(pilot, Place())
        snapshot = app.cluster.snapshot
    assert snapshot is not None
    first, second, third = fakes.worker(0), fakes.worker(1), fakes.worker(2)

    def aged(ages: dict[Task, float | None]) -> Any:
        views = []
        for task, age in ages.items():
            view = snapshot.view(task)
            assert view.frame is not None and view.frame.probe is not None
            probe = replace(view.frame.probe, checkpoint=None if age is None else view.frame.at - age)
            views.append(replace(view, frame=replace(view.frame, probe=probe)))
        return replace(snapshot, tasks=tuple(views))

    known = aged({first: 10.0, second: 300.0, third: None})
    assert checkpoint_age(known, [(first, second, third)]) == 10.0
    assert checkpoint_age(known, [(first,), (second,)]) == 300.0
    assert checkpoint_age(known, [(first,), (third,)]) is None


SIZES = [(80, 24), (200, 60), (60, 15), (20, 6), (1, 1), (300, 10), (12, 80), (120, 40), (80, 24)]


@pytest.mark.parametrize("name", PLACES)
async def test_resizing_never_breaks(name: str) -> None:
    app = PLACES[name].build()
    async with app.run_test(size=SIZE) as pilot:
        await come_to(pilot, PLACES[name])
        for width, height in SIZES:
            await pilot.resize_terminal(width, height)
            await pilot.pause()
            assert [len(line) for line in texts(app).split("\n")] == [width] * height, (width, height)


@pytest.mark.parametrize("name", PLACES)
async def test_without_unicode_every_character_is_ascii(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = PLACES[name].build(ascii=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await come_to(pilot, PLACES[name])
        strange = {text for text in texts(app) if not text.isascii()}
        assert strange == set(), texts(app)
        assert name != "help" or "On this page" in texts(app)


async def test_with_16_colours_letters_say_what_bars_are_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-16color")
    monkeypatch.setenv("COLORTERM", "")
    app = build()
    async with app.run_test(size=(120, 40)) as pilot:
        await come_to(pilot, Place())
        assert app.console.color_system == "standard" and "cccc" in texts(app)


async def test_digits_clicks_and_names_lead_to_the_same_pages() -> None:
    app = build()
    async with app.run_test(size=SIZE) as pilot:
        await settled(pilot)

        async def page(*keys: str) -> str:
            await pilot.press(*keys)
            await still(pilot)
            assert isinstance(app.screen, SnapshotScreen)
            return app.screen.page

        assert [await page(str(place)) for place in range(1, 8)] == list(PAGES)
        line = texts(app).split("\n")[0]
        for name in ("heat", "cluster", "hosts"):
            await pilot.click(TabLine, offset=(line.index(name), 0))
            assert await page() == name
        assert await page("colon", *"adv", "enter") == "advice"
        assert await page("colon", *"worker", "space", *"37", "enter") == "cluster"
        assert app.cluster.table.cursor == fakes.worker(37)
        assert await page("colon", *"sort", "space", "l", "tab", "enter") == "cluster"
        assert app.cluster.table.order.sort == "lag"
        keys = texts(app).split("\n")[-1]
        await pilot.click(KeyBar, offset=(keys.index("log"), 0))
        assert await page() == "log"
        await pilot.press("colon", *"wrokr", "enter")
        assert any("'wrokr' is no command" in notification.message for notification in app._notifications)
        await pilot.press("colon", "q", "enter")
        await until(lambda: has_ended(app), pilot.pause)


def saved() -> list[str]:
    """Return the contents of the files that `ctrl+s` has written here: the picture, the text."""
    return [path.read_text() for path in sorted(Path().glob("digits-*"))]


async def test_rows_and_the_sentence_are_copied_and_the_screen_is_saved(tmp_path: Path) -> None:
    app = build(view_file=ViewFile.at(tmp_path / "state" / "console.json"))
    async with app.run_test(size=SIZE) as pilot:
        await come_to(pilot, Place(("y",)))
        assert app.clipboard.startswith("worker:1  ● running") and app.clipboard.endswith("2.1x compute")
        assert (tmp_path / "state" / "copied.txt").read_text() == f"{app.clipboard}\n"
        await pilot.press("Y")
        assert app.clipboard == fakes.straggler().sentence
        await pilot.press("ctrl+s")
        picture, text = saved()
        assert "<svg" in picture and text.rstrip().endswith("? help") and text.lstrip().startswith("1 cluster")
        await pilot.press("4", "y")
        await still(pilot)
        assert "serious  worker:1 has been slow" in app.clipboard


async def test_phases_come_first_in_help_and_keys_in_groups() -> None:
    app = build()
    async with app.run_test(size=(100, 90)) as pilot:
        await come_to(pilot, Place(("question_mark",)))
        said = texts(app)
        titles = ("A step, from left to right", "On this page", "Pages", "Act on tasks", "Everywhere")
        assert sorted(titles, key=said.index) == list(titles)


@pytest.mark.parametrize("place", [Place(), Place(("question_mark",)), Place(("enter",)), Place(("r",))])
async def test_ctrl_c_quits(place: Place) -> None:
    app = build()
    async with app.run_test(size=SIZE) as pilot:
        await come_to(pilot, place)
        await pilot.press("ctrl+c")
        await until(lambda: has_ended(app), pilot.pause)


@pytest.mark.parametrize("place", [Place(("A",)), Place(("b",))])
async def test_ctrl_c_copies_what_is_marked(place: Place) -> None:
    app = build()
    async with app.run_test(size=SIZE) as pilot:
        await come_to(pilot, place)
        marked = app.screen.query(Static).last()
        marked.text_select_all()
        await pilot.press("ctrl+c")
        await until(lambda: app.clipboard, pilot.pause)
        assert app.clipboard in str(marked.render()) and not has_ended(app)
