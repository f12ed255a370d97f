"""The first half minute on the screen: stages with their seconds, the last output, and the page of a sole task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import fakes
import pytest
from textual.widgets import Static
from tfscale.console.analysis.condition.start_stages import Stage, Start
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import AgentDescribed, Event, FrameArrived, LinkChanged, LinkState
from tfscale.console.engine.state_factory import states
from tfscale.console.transport.channels import CommandError
from tfscale.console.tui.app import ConsoleApp
from tfscale.console.tui.screens.cluster_screen import ClusterScreen
from tfscale.console.tui.screens.task_screen import TaskScreen
from tfscale.console.tui.widgets.appearance.theme import ASCII, Appearance
from tfscale.console.tui.widgets.lifetime.last_output import LastOutput
from tfscale.console.tui.widgets.lifetime.start_strip import start_strip
from tfscale.console.tui.widgets.panes.cluster_summary import Metrics
from tfscale.core.cluster.task import Task
from tfscale.core.records.probe_status import IMPORTING, ProbeState, ProbeStatus
from waiting import settled, still, until

IMPORTS = ProbeStatus(ProbeState.LOADED, f"its process 4242 {IMPORTING}")
WAITS = ProbeStatus(ProbeState.WAITING, tensorflow="2.21.0")


class Log(fakes.FakeCommands):
    """Log of a program that has a progress bar; the agent is there at the second try."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[Task, int]] = []

    async def follow_log(self, task: Task, tail: int) -> AsyncIterator[tuple[str, ...]]:
        self.asked.append((task, tail))
        if len(self.asked) == 1:
            raise CommandError("no log: its agent is not there")
        yield ("reading 8 files", "\x1b[1mread 3 of 8\rread 4 of 8", "")
        yield ("I0000 00:00:1795952083.559670   13535 cudart_stub.cc:31] Could not find cuda drivers",)
        await asyncio.Event().wait()


def starting(workers: int, *probes: ProbeStatus | None) -> list[Event]:
    """Return ten seconds of workers that have these probes from the third second on."""
    cluster = fakes.spec(workers)
    events: list[Event] = []
    for task in cluster.tasks:
        events += [LinkChanged(fakes.NOW, task, LinkState.UP), AgentDescribed(fakes.NOW, task, fakes.description(task))]
    status = fakes.status(started=fakes.NOW)
    for second in range(1, 11):
        for task, probe in zip(cluster.tasks, probes, strict=True):
            frame = fakes.frame(task, second, fakes.NOW + second, of=status)
            frame = replace(frame, steps=(), collective=None, probe=probe if second > 2 else None)
            events.append(FrameArrived(fakes.NOW + second, task, frame))
    return events


def build(workers: int, *probes: ProbeStatus | None, commands: fakes.FakeCommands | None = None) -> ConsoleApp:
    source = fakes.ScriptedSource(fakes.spec(workers), starting(workers, *probes))
    source.seconds = 10
    return ConsoleApp(Engine(source, states(source.spec)), commands or Log())


def text_of(app: ConsoleApp, kind: type[Metrics] | type[LastOutput]) -> str:
    return str(app.screen.query_one(kind).render())


async def test_the_stages_of_the_slowest_task_and_its_last_output_are_on_the_screen() -> None:
    app = build(2, WAITS, IMPORTS)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        app._engine.source.tick()  # type: ignore[attr-defined]
        await until(lambda: text_of(app, LastOutput), pilot.pause)
        assert text_of(app, LastOutput) == "worker:1: read 4 of 8"
        assert text_of(app, Metrics) == "begun 3 s → importing TensorFlow 7 s → building → first step"
        for event in fakes.healthy_events(app._spec):
            app._engine.inbox.put(replace(event, at=fakes.NOW + 12))
        app._engine.source.tick(2)  # type: ignore[attr-defined]
        await until(lambda: not app.screen.has_class("starting"), pilot.pause)
        assert not text_of(app, LastOutput), "a program that trains is no news"


def test_a_start_looks_as_before(snap_compare: Any) -> None:
    assert snap_compare(
        build(3, WAITS, IMPORTS, IMPORTS, commands=fakes.FakeCommands()), terminal_size=(120, 40), run_before=_drawn
    )


def test_the_page_of_a_sole_task_is_the_first_and_looks_as_before(snap_compare: Any) -> None:
    app = build(1, IMPORTS, commands=fakes.FakeCommands())
    assert snap_compare(app, terminal_size=(120, 40), run_before=_drawn)


async def _drawn(pilot: Any) -> None:
    await settled(pilot)
    await still(pilot)


async def test_a_sole_task_has_its_page_at_once_and_reads_its_log_as_soon_as_its_agent_is_there() -> None:
    commands = Log()
    app = build(1, IMPORTS, commands=commands)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert isinstance(app.screen, TaskScreen)
        title = app.screen.query_one("#log-title", Static)
        if len(commands.asked) == 1:
            app._engine.inbox.put(LinkChanged(fakes.NOW + 10, fakes.worker(0), LinkState.DOWN, "refused"))
            app._engine.source.tick()  # type: ignore[attr-defined]
            await until(lambda: app.screen._was_down, pilot.pause)  # type: ignore[attr-defined]
            assert "its agent is not there" in str(title.render())
            app._engine.inbox.put(LinkChanged(fakes.NOW + 11, fakes.worker(0), LinkState.UP))
            app._engine.source.tick()  # type: ignore[attr-defined]
        await until(lambda: app.screen.log_view.lines, pilot.pause)  # type: ignore[attr-defined]
        await pilot.press("escape")
        assert isinstance(app.screen, ClusterScreen)
        await pilot.press("enter")
        assert isinstance(app.screen, TaskScreen)


@pytest.mark.parametrize(
    ("width", "says"),
    [
        (99, "begun 2 s -> importing TensorFlow 34 s -> preparing 3 s -> building 4 s -> first step"),
        (60, "preparing 3 s -> building 4 s -> first step"),
        (20, "building 4 s -> fir~"),
    ],
)
def test_a_strip_that_does_not_fit_loses_what_is_long_over(width: int, says: str) -> None:
    seconds = {Stage.BEGUN: 2.0, Stage.IMPORTING: 34.0, Stage.PREPARING: 3.0, Stage.BUILDING: 4.9}
    assert str(start_strip(Start(Stage.BUILDING, seconds), Appearance(glyphs=ASCII), width)) == says
