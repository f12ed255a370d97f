"""List of runs: each with its headline, one to choose, a key that leads back."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from fake_agent import FakeCluster
from textual.widgets import OptionList
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.state_factory import states
from tfscale.console.settings.config import Settings
from tfscale.console.sources.simulation.simulated import SimulatedSource
from tfscale.console.transport.commands import NoCommands
from tfscale.console.tui.app import ConsoleApp, Leaving
from tfscale.console.tui.runs_app import RunsApp
from tfscale.console.tui.watched_run import WatchedRun
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.core.cluster.local.local_agents import LocalAgent
from tfscale.core.cluster.task import Role, Task
from waiting import until

W0 = Task(Role.WORKER, 0)


def agent_of(run: str, address: str) -> LocalAgent:
    return LocalAgent(run, "worker:0", address, 1, time.time() - 2400, "/", ("python", "train.py"), fingerprint=run)


def texts(app: RunsApp) -> list[str]:
    runs = app.query_one(OptionList)
    return [str(runs.get_option_at_index(index).prompt) for index in range(runs.option_count)]


async def test_each_run_has_its_own_headline_and_one_that_ends_leaves_the_list() -> None:
    async with FakeCluster(2) as small, FakeCluster(3) as large:
        plays = [asyncio.create_task(cluster.play()) for cluster in (small, large)]
        agents = [
            agent_of("digits", f"127.0.0.1:{small.agents[W0].port}"),
            agent_of("letters", f"127.0.0.1:{large.agents[W0].port}"),
            agent_of("gone", "127.0.0.1:1"),
        ]
        app = RunsApp(lambda: agents, partial(WatchedRun, settings=Settings()), Appearance(), agents[1])
        async with app.run_test(size=(120, 30)) as pilot:
            words = ("2 workers in step", "3 workers in step", "is tfscale-agent running there?")
            await until(lambda: all(word in text for word, text in zip(words, texts(app), strict=True)))
            assert app.query_one(OptionList).highlighted == 1
            digits, letters, gone = texts(app)
            assert digits[1:].startswith(" digits   2/2 up   ") and letters[1:].startswith(" letters   3/3 up   ")
            assert "agent up for 40 min" in digits and gone.splitlines()[1].startswith("  --agent 127.0.0.1:1: ")
            del agents[0]
            await until(lambda: len(texts(app)) == 2)
            await pilot.press("k", "enter")
        for play in plays:
            play.cancel()
    assert app.return_value == agents[0]


async def test_a_key_leads_back_to_the_list_and_is_offered_nowhere_else() -> None:
    source = SimulatedSource(2)
    for is_of_list in (False, True):
        app = ConsoleApp(Engine(source, states(source.spec)), NoCommands("simulated"), is_of_list=is_of_list)
        async with app.run_test() as pilot:
            assert app.check_action("runs", ()) is is_of_list
            await pilot.press("w")
            await pilot.pause()
        assert app.return_value is (Leaving.TO_RUNS if is_of_list else None)
