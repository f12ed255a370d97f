"""News of a watched run: a watch that is started again does not tell anew what is known, and tells its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from alerts.told_alerts import Collector
from simulated_runs import simulated
from tfscale.console.alerts.message import Change
from tfscale.console.alerts.run_alerts import RunAlerts
from tfscale.console.engine.events import Event, SecondPassed
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.state_factory import states
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.console.watch.past_file import PastKeeper, read_past
from tfscale.console.watch.run_news import RunNews

RUN = simulated(60, 3, "worker:1=1.8x@3s-40s")
OPEN, OVER = 30.0, 55.0
"""Seconds at which the straggler is open, and over."""


class Told(Collector):
    """Collector of the alerts about the straggler."""

    @property
    def stragglers(self) -> list[bool]:
        """List for each alert about the straggler whether it tells its end."""
        alerts = (alert for message in self.sent for alert in message.alerts)
        return [each.change is Change.OVER for each in alerts if each.finding and each.finding.kind == "straggler"]


@pytest.fixture
def told() -> Told:
    return Told()


def news_to(told: Told) -> RunNews:
    return RunNews(RunAlerts(told))


def snapshots(events: Sequence[Event], caught_up: float) -> list[Snapshot]:
    """Return the snapshots of a console that has caught up with the past at a second of the run."""
    state, found = states(simulated_spec(3))(), []
    for event in events:
        state.fold(event)
        if isinstance(event, SecondPassed):
            left = RUN[0].at + caught_up - event.at
            found.append(replace(state.snapshot(event.at), age=max(0.0, left) * 10))
    return found


def tell(news: RunNews, caught_up: float, until: float) -> None:
    for snapshot in snapshots(RUN, caught_up):
        if snapshot.at <= RUN[0].at + until:
            news.snapshot_taken(snapshot)
    news.finish()


def test_what_begins_and_ends_is_told_with_the_name_of_the_run(told: Told) -> None:
    tell(news_to(told), 0.0, OVER)
    assert told.stragglers[0] is False and told.stragglers[-1] is True
    assert all(title.endswith(" [simulated]") for title in told.titles)


def test_a_watch_that_comes_late_tells_what_is_open(told: Told) -> None:
    tell(news_to(told), OPEN, OPEN + 1)
    assert told.stragglers == [False]


def test_a_watch_that_is_started_again_does_not_tell_what_is_known_but_its_end(told: Told) -> None:
    news = news_to(told)
    news.known(frozenset([("straggler", "worker:1")]))
    tell(news, OPEN, OPEN + 1)
    assert not told.stragglers
    tell(news, OPEN, OVER)
    assert told.stragglers[-1] is True


def test_the_end_of_what_is_known_is_told_though_it_came_while_no_watch_was_there(told: Told) -> None:
    news = news_to(told)
    news.known(frozenset([("straggler", "worker:1")]))
    tell(news, OVER, OVER + 2)
    assert told.stragglers == [True]


def test_a_finding_is_kept_as_told_from_the_alert_about_its_begin_to_that_about_its_end(
    told: Told, tmp_path: Path
) -> None:
    news, keeper = news_to(told), PastKeeper(tmp_path, RUN[0].at, None)
    kept = []
    for snapshot in snapshots(RUN, 0.0):
        news.snapshot_taken(snapshot)
        keeper.note(snapshot, news.untold())
        past = read_past(tmp_path)
        assert past is not None
        kept.append(("straggler", "worker:1") in past.open)
        assert kept[-1] is (told.stragglers[-1:] == [False])
    assert set(kept) == {False, True}
