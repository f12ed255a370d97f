"""Leaving a run that the console has started: it asks, unless all tasks have ended."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from textual.widgets import Button, Static
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.state_factory import states
from tfscale.console.sources.simulation.simulated import SimulatedSource
from tfscale.console.transport.commands import NoCommands
from tfscale.console.tui.app import ConsoleApp, Leaving
from tfscale.console.tui.dialogs.leave import LeaveScreen
from waiting import until


def _app(*, owns_run: bool) -> ConsoleApp:
    source = SimulatedSource(2, ())
    return ConsoleApp(Engine(source, states(source.spec)), NoCommands("simulated"), owns_run=owns_run)


@pytest.mark.parametrize(
    ("keys", "result"),
    [
        (["q", "g"], Leaving.RUN_GOES_ON),
        (["q", "s"], Leaving.RUN_ENDS),
        (["q", "escape", "q", "q", "q", "enter"], Leaving.RUN_GOES_ON),
    ],
)
async def test_the_answer_is_the_result(keys: Sequence[str], result: Leaving) -> None:
    app = _app(owns_run=True)
    async with app.run_test(size=(100, 30)) as pilot:
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
        await until(lambda: app.return_value is not None)
    assert app.return_value is result


async def test_the_question_names_the_run_and_all_answers() -> None:
    app = _app(owns_run=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("q")
        await until(lambda: isinstance(app.screen, LeaveScreen))
        await pilot.pause()
        labels = [str(button.label) for button in app.screen.query(Button)]
        question = str(app.screen.query_one(Static).content)
        assert all(
            button.region.width and app.screen.region.contains_region(button.region)
            for button in app.screen.query(Button)
        )
    assert labels == ["Go on (g)", "Stop it (s)", "Stay (esc)"]
    assert "simulated" in question and "tfscale-console shows it again" in question


async def test_a_console_that_only_watches_leaves_at_once() -> None:
    app = _app(owns_run=False)
    async with app.run_test() as pilot:
        await pilot.press("q")
        await until(lambda: not app.is_running)
