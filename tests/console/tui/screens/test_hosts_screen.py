"""The page of hosts: what frames and placements tell of them, and the orders about them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import fakes
import pytest
from textual.widgets import Input
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import AgentDescribed, Event, FrameArrived, LinkChanged, LinkState
from tfscale.console.engine.state import ClusterState
from tfscale.console.tui.app import ConsoleApp
from tfscale.console.tui.dialogs.confirm import ConfirmScreen
from tfscale.console.tui.dialogs.prompt import PromptScreen
from tfscale.console.tui.screens.hosts_screen import HostsScreen
from tfscale.console.tui.screens.task_screen import TaskScreen
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.placement.placement import file_placement
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.host_sample import Neighbour, PeerLink
from tfscale.core.records.probe_status import Devices
from waiting import settled, still, until

SPARES = {Address(f"10.0.9.{number}", 7070): Address(f"10.0.9.{number}", 2222) for number in (1, 2)}
SLOW = Diagnosis(
    "slow_link", "worker:2", fakes.NOW - 30, None, "serious", "the link from worker:2 to worker:3 is slow",
    {"receiver": "worker:3", "manner": "slow"},
)  # fmt: skip


def link(peer: int, busy: float) -> PeerLink:
    return PeerLink(f"worker:{peer}", 20e6, 20e6, busy, 0.0, 0, 0, 0.0005, 150e6, app_limited=False)


def told(event: FrameArrived, workers: int) -> FrameArrived:
    """Return a frame with links to both neighbours; of worker:3 one whose host others use, too."""
    place, frame = event.task.index, event.frame
    assert frame.host is not None and frame.probe is not None
    links = (
        link((place + 1) % workers, 0.95 if place == 2 else 0.1),
        link((place - 1) % workers, 0.08),
    )
    near = (Neighbour("worker:4", fakes.NOW - 20, 0.001, fakes.NOW - 20),) if place in (3, 5) else ()
    host = replace(frame.host, links=links, neighbours=near, cpu=0.97 if place == 3 else 0.61)
    probe = replace(frame.probe, devices=Devices(gpus_found=8, gpus=6 if place == 3 else 8, tpus=0))
    return replace(event, frame=replace(frame, host=host, probe=probe))


def events(cluster: ClusterSpec) -> list[Event]:
    """Return events of a cluster with a slow link, a dead host, and two spares, one of them cordoned."""
    placement = replace(file_placement(cluster), generation=1, cordoned={"10.0.9.2": "3 failures within 10 min"})
    found: list[Event] = []
    for event in fakes.gpu_events(cluster):
        if isinstance(event, FrameArrived):
            event = told(event, len(cluster.tasks))
        if isinstance(event, AgentDescribed):
            event = replace(event, description=replace(event.description, placement=placement.to_json()))
        found.append(event)
    return [*found, LinkChanged(fakes.NOW - 12, fakes.worker(4), LinkState.DOWN, "does not answer")]


def build(workers: int = 6, commands: fakes.FakeCommands | None = None, **options: Any) -> ConsoleApp:
    cluster = replace(fakes.spec(workers), spares=SPARES)
    findings = replace(fakes.healthy_findings(cluster), diagnoses=(SLOW,), headline=SLOW.sentence, top=SLOW)
    source = fakes.ScriptedSource(cluster, events(cluster))
    engine = Engine(source, lambda: ClusterState(cluster, fakes.FakeAnalysis(findings)))
    return ConsoleApp(engine, commands or fakes.FakeCommands(), **options)


def lines(app: ConsoleApp) -> list[str]:
    return [strip.text for strip in app.screen._compositor.render_strips()]


async def opened(pilot: Any, *keys: str) -> list[str]:
    await settled(pilot)
    await pilot.press("6", *keys)
    await still(pilot)
    return lines(pilot.app)


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (120, 40), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_hosts_look_as_before(snap_compare: Any, size: tuple[int, int]) -> None:
    assert snap_compare(build(40), terminal_size=size, run_before=opened)


def test_ascii_looks_as_before(snap_compare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(build(ascii=True), terminal_size=(120, 40), run_before=opened)


async def test_hosts_say_state_tasks_other_programs_and_slow_links_at_both_ends() -> None:
    app = build()
    async with app.run_test(size=(160, 50)) as pilot:
        seen = await opened(pilot)
        assert any("8 hosts   2 spare   1 cordoned   1 dead" in line for line in seen)
        rows: dict[str, str] = {}
        for line in seen:
            words = line.strip(" │▌").split()
            if words and words[0].isdecimal():
                rows.setdefault(words[1], line)
        assert "● up" in rows["10.0.0.2"] and "worker:0" in rows["10.0.0.2"] and "0.4 of 16" in rows["10.0.0.2"]
        assert "slow to 10.0.0.5" in rows["10.0.0.4"] and "slow from 10.0.0.4" in rows["10.0.0.5"]
        assert "6.1 of 16" in rows["10.0.0.5"] and "others 2" in rows["10.0.0.5"]
        assert "✖ dead 12 s" in rows["10.0.0.6"] and "of 16" not in rows["10.0.0.6"]
        assert "○ spare" in rows["10.0.9.1"] and "△ cordoned" in rows["10.0.9.2"]
        head = next(line for line in seen if "▲3" in line and "▲4" in line)
        sender = next(line for line in seen if "▲3 10.0.0.4" in line)
        assert "▲95%" in sender and sender.index("▲95%") == head.index("▲4") - 2
        told = await opened(pilot, "G")
        assert any("cordoned: 3 failures within 10 min" in line for line in told)


async def test_orders_are_about_the_host_under_the_cursor() -> None:
    commands = fakes.FakeCommands()
    app = build(commands=commands)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, "j", "W")
        assert isinstance(app.screen, ConfirmScreen) and app.screen.question.without == "10.0.0.5"
        await pilot.press("y")
        await until(lambda: commands.without == ["10.0.0.5"], pilot.pause)
        await pilot.press("G", "U")
        assert isinstance(app.screen, PromptScreen) and app.screen.query_one(Input).value == "10.0.9.2"
        await pilot.press("enter")
        await until(lambda: commands.carried_out == [("uncordon", None, "10.0.9.2")], pilot.pause)
        assert isinstance(app.screen, HostsScreen)
        await pilot.press("g", "enter")
        assert isinstance(app.screen, TaskScreen) and app.screen.selected == (fakes.worker(0),)
