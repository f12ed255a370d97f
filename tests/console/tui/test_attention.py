"""Signs for an operator who looks elsewhere: the terminal's title, a toast, a bell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import fakes
import pytest
from tfscale.console.analysis.findings import Findings
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import Event
from tfscale.console.engine.state import ClusterState
from tfscale.console.tui.app import ConsoleApp
from tfscale.console.tui.attention import Attention, set_title, terminal_title
from tfscale.console.tui.widgets.appearance.theme import ASCII, UNICODE
from tfscale.console.tui.widgets.panes.headline_pane import Headline
from waiting import settled, until

CLUSTER = fakes.spec(2)


def shown(findings: Findings, *more: Event) -> Any:
    return fakes.folded(CLUSTER, *fakes.healthy_events(CLUSTER), *more, findings=findings).snapshot(fakes.NOW)


@pytest.mark.parametrize(
    ("findings", "title"),
    [
        (fakes.straggler_findings(CLUSTER), "▲ worker:1 slow - tfscale digits"),
        (fakes.crash_findings(CLUSTER), "✖ worker:1 crashed - tfscale digits"),
        (fakes.findings_of("not_finite", CLUSTER), "▲ not finite - tfscale digits"),
        (fakes.healthy_findings(CLUSTER), "tfscale digits"),
    ],
)
def test_the_title_has_the_finding_of_the_top_line(findings: Findings, title: str) -> None:
    assert terminal_title(shown(findings), UNICODE) == title


def test_the_title_tells_how_a_run_ended() -> None:
    well, badly = (fakes.ended_events(CLUSTER, code) for code in (0, 1))
    assert terminal_title(shown(Findings(), *well), UNICODE) == "✔ ended - tfscale digits"
    assert terminal_title(shown(Findings(), *badly), ASCII) == "X ended - tfscale digits"
    assert "\x07" not in set_title("a\x07\x1b]0;b")[:-1], "a run's name may not end the sequence"


def test_a_serious_finding_is_news_once_and_not_at_the_first_look() -> None:
    attention = Attention()
    healthy, slow = shown(fakes.healthy_findings(CLUSTER)), shown(fakes.straggler_findings(CLUSTER))
    assert [attention.news(each) for each in (slow, slow)] == [[], []]
    assert attention.news(healthy) == []
    assert [each.subject for each in attention.news(slow)] == ["worker:1"]
    mild = replace(slow, findings=replace(slow.findings, diagnoses=(fakes.straggler(severity="warning"),)))
    assert attention.news(healthy) == attention.news(mild) == []


@pytest.mark.parametrize(("page", "toasts"), [("v", 1), ("", 0)])
async def test_a_new_serious_finding_is_a_toast_on_another_page_and_rings_on_each(page: str, toasts: int) -> None:
    source = fakes.ScriptedSource(CLUSTER, fakes.healthy_events(CLUSTER))
    analysis = fakes.FakeAnalysis(fakes.healthy_findings(CLUSTER))
    app = ConsoleApp(Engine(source, lambda: ClusterState(CLUSTER, analysis)), fakes.FakeCommands(), bell=True)
    rung: list[int] = []
    app.bell = lambda: rung.append(1)  # type: ignore[method-assign]
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await pilot.press(*page)
        analysis.findings = fakes.straggler_findings(CLUSTER)
        for _ in range(2):
            source.tick()
            await until(lambda: app.screen.snapshot.at == source.now(), pilot.pause)  # type: ignore[attr-defined]
        told = [notification.message for notification in app._notifications]
        assert len(told) == toasts and rung == [1]
        assert all(each.startswith("worker:1 has been slow") for each in told)


async def test_an_observer_is_told_so() -> None:
    source = fakes.ScriptedSource(CLUSTER, fakes.healthy_events(CLUSTER))
    state = fakes.folded(CLUSTER)
    app = ConsoleApp(Engine(source, lambda: state), fakes.FakeCommands(), read_only=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert " OBSERVER " in str(app.cluster.title_line.render())


async def test_an_acknowledged_finding_makes_room_for_the_next_and_then_turns_grey() -> None:
    source = fakes.ScriptedSource(CLUSTER, fakes.healthy_events(CLUSTER))
    slow, crash = fakes.straggler_findings(CLUSTER), fakes.crash_findings(CLUSTER)
    both = replace(crash, diagnoses=(*crash.diagnoses, *slow.diagnoses))
    app = ConsoleApp(Engine(source, lambda: ClusterState(CLUSTER, fakes.FakeAnalysis(both))), fakes.FakeCommands())

    def top() -> str:
        return app.screen.query_one(Headline).lines(200)[0].plain

    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert top().startswith("✖ worker:1 was killed")
        await pilot.press("M")
        assert top().startswith("▲ worker:1 has been slow")
        await pilot.press("M")
        assert top().startswith("· worker:1 was killed") and top().endswith("(acknowledged)")
        assert app._terminal_title == "tfscale digits"
        source.tick()
        await until(lambda: app.cluster.snapshot.at == source.now(), pilot.pause)  # type: ignore[union-attr]
        assert top().startswith("· "), "it stays silent"
        await pilot.press("M")
        assert top().startswith("✖ worker:1 was killed")


async def test_a_console_that_is_behind_draws_few_pictures_of_the_past_and_the_present_at_once() -> None:
    engine = Engine(
        fakes.ScriptedSource(CLUSTER, fakes.healthy_events(CLUSTER)),
        lambda: ClusterState(CLUSTER, fakes.FakeAnalysis(fakes.healthy_findings(CLUSTER))),
    )
    app = ConsoleApp(engine, fakes.FakeCommands())
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        newest, drawn = shown(fakes.healthy_findings(CLUSTER)), set()
        for second in range(60):
            app.snapshot_taken(replace(newest, at=newest.at + second, age=100.0 - second))
            await pilot.pause()
            drawn.add(app.screen.snapshot.at)  # type: ignore[attr-defined]
        assert 1 <= len(drawn - {newest.at}) < 20
        app.snapshot_taken(replace(newest, at=newest.at + 100))
        await pilot.pause()
        assert app.screen.snapshot.at == newest.at + 100  # type: ignore[attr-defined]
