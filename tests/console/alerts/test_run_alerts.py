"""Alerts of a run: what is told, when, and what is not."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import fakes
import pytest
from alerts.told_alerts import Collector, told
from simulated_runs import simulated
from tfscale.console.alerts.alert_rule import AlertRule
from tfscale.console.alerts.message import TITLE, Change
from tfscale.console.alerts.run_alerts import GATHERS, GATHERS_KNOWN, LONG_AGO, RunAlerts
from tfscale.console.ending.run_memory import RunMemory
from tfscale.console.engine.events import Event, FrameArrived, SecondPassed
from tfscale.core.records.task_status import Exit, TaskState


def after(collector: Collector, number: int = 0) -> float:
    """Return the seconds of the simulation at which a message's gravest alert was told."""
    return collector.sent[number].alerts[0].at - fakes.NOW


def test_a_straggler_is_told_once_then_its_end_and_what_it_cost() -> None:
    found = told(simulated(50, 6, "worker:1=1.6x@10s-30s"), 6)
    assert [title.partition(",")[0] for title in found.titles] == ["worker:1 slow", "over: worker:1 slow"]
    begin, over = found.sent
    assert begin.severity == "serious" and not begin.is_good and over.is_good
    assert "worker:1 has been slow for" in begin.text and "To do: check its GPU" in begin.text
    known = begin.alerts[0].finding
    assert known is not None and begin.alerts[0].at - float(known.evidence["noticed"]) <= GATHERS_KNOWN + 2
    assert "Evidence: ratio 1." in begin.text and begin.text.endswith("\nShow it")
    cost = over.alerts[0].cost
    # A third of the 20 s: the peers wait for it.
    assert cost is not None and 4 < cost < 8 and f"It cost {int(cost)} s of the training." in over.text
    assert GATHERS <= after(found) < 30 < after(found, 1) < 45


def test_a_crash_with_999_followers_is_one_message() -> None:
    found = told(simulated(16, 1_000, "worker:7=kill@5s"), 1_000)
    (message,) = found.sent
    assert message.title.startswith("ended: worker:7 was killed by SIGKILL")
    assert [alert.change for alert in message.alerts] == [Change.ENDED, Change.BEGAN]
    assert "996 others" in message.text and len(message.text) < 1_500
    assert message.severity == "critical"


def test_a_crash_that_is_over_before_it_is_told_is_told_with_what_it_was() -> None:
    found = told(simulated(60, 4, "worker:1=kill@20s-21s"), 4)
    over = next(each for message in found.sent for each in message.alerts if each.finding and each.finding.end)
    assert over.change is Change.OVER and over.times == 1
    begin, end = over.text.splitlines()
    assert begin.startswith("worker:1 was killed by SIGKILL at ") and "runs again, after" in end


def test_findings_of_one_moment_are_one_message_the_gravest_first() -> None:
    found = told(simulated(40, 8, "worker:1=2.5x@8s", "worker:4=cut@20s"), 8)
    assert len(found.sent) == 2
    together = told(simulated(40, 8, "worker:1=2.5x@8s", "worker:4=cut@6s"), 8)
    (message,) = together.sent
    assert re.fullmatch(r"worker:1 slow, 5\d% lost, and 1 more \[simulated\]", message.title)
    assert [alert.name.partition(",")[0] for alert in message.alerts] == ["worker:1 slow", "worker:4 unreachable"]


def test_stragglers_that_share_a_sentence_are_one_alert_and_their_costs_are_one() -> None:
    found = told(simulated(60, 8, "worker:1=2x@8s-30s", "worker:4=2x@8s-30s"), 8)
    begin, over = found.sent
    assert begin.title.startswith("worker:1 and 1 more slow") and len(begin.alerts) == 1
    assert len(over.alerts) == 1
    cost = over.alerts[0].cost
    assert cost is not None and 7 < cost < 13


def test_a_finding_that_comes_and_goes_is_told_once_in_a_cool_down() -> None:
    faults = [f"worker:1=cut@{second}s-{second + 18}s" for second in range(10, 370, 30)]
    often = told(simulated(380, 3, *faults), 3, AlertRule(cool_down=0.0))
    calm = told(simulated(380, 3, *faults), 3, AlertRule(cool_down=100.0))
    assert len(calm.sent) <= 2 * 4 < len(often.sent)
    assert any("It has begun 4 times since" in message.text for message in calm.sent)
    assert all(len(title) <= TITLE for title in calm.titles)


def test_a_trifle_that_is_over_before_it_is_told_is_not_told() -> None:
    found = told(simulated(60, 3, "worker:1=cut@10s-18s"), 3)
    assert found.sent == []


def test_the_rule_has_the_least_severity() -> None:
    events = simulated(40, 3, "worker:1=cut@10s")
    assert len(told(events, 3).sent) == 1
    assert told(events, 3, AlertRule(severity="serious")).sent == []


def test_a_stillness_that_becomes_a_hang_is_worse_and_not_over() -> None:
    found = told(simulated(140, 3, "worker:1=hang@10s-130s"), 3)
    assert [title.partition(" [")[0] for title in found.titles] == [
        "worker:1 stands still",
        "worse: worker:1 stuck",
        "over: worker:1 stuck, 2 m 00 s",
    ]
    assert [message.severity for message in found.sent] == ["warning", "critical", "info"]


def test_what_lasts_is_escalated_once_with_its_end_and_nothing_else_is() -> None:
    found = told(simulated(100, 6, "worker:1=1.6x@10s-80s"), 6, AlertRule(escalate_after=30.0))
    lasts, over = found.escalated
    assert lasts.title.startswith("lasts: worker:1 slow") and lasts.text.startswith("It has lasted for")
    assert lasts.alerts[0].at == pytest.approx(found.sent[0].alerts[0].at + 30.0)
    assert over.title.startswith("over: worker:1 slow")
    assert told(simulated(50, 6, "worker:1=1.6x@10s-30s"), 6, AlertRule(escalate_after=30.0)).escalated == []


def test_a_run_of_which_nothing_is_heard_is_told_and_that_it_is_heard_again() -> None:
    events = simulated(400, 2, "worker:0=cut@10s-350s", "worker:1=cut@10s-350s")
    found = told(events, 2)
    silent, heard = found.sent
    assert silent.title == "nothing heard for 5 m 00 s [simulated]" and silent.severity == "critical"
    assert "no contact with the agents of worker:0 and worker:1" in silent.text
    assert 305 <= after(found) <= 320
    assert heard.title == "heard again [simulated]" and heard.is_good


def test_a_console_that_slept_does_not_take_its_own_silence_for_that_of_the_run() -> None:
    events = simulated(20, 2)
    slept = [SecondPassed(fakes.NOW + 8 * 3600 + second) for second in range(3)]
    assert told([*events, *slept], 2).sent == []


def test_a_run_that_was_never_heard_is_not_silent() -> None:
    assert told([SecondPassed(fakes.NOW + second) for second in range(400)], 2).sent == []


def test_a_console_that_comes_late_tells_what_holds_and_not_what_is_over() -> None:
    faults = ("worker:1=1.6x@10s-30s", "worker:4=2.5x@60s")
    found = told(simulated(100, 6, *faults), 6, late_until=90.0)
    (message,) = found.sent
    assert message.title.startswith("worker:4 slow") and after(found) >= 87
    assert told(simulated(80, 6, faults[0]), 6, late_until=60.0).sent == []


def test_who_was_told_of_a_begin_is_told_of_an_end_that_the_console_did_not_see() -> None:
    events = simulated(80, 6, "worker:1=1.6x@10s-40s")
    collector = told([each for each in events if not 35 < each.at - fakes.NOW < 70 or not _second(each)], 6)
    assert [title.partition(",")[0] for title in collector.titles] == ["worker:1 slow", "over: worker:1 slow"]


def _second(event: Event) -> bool:
    return isinstance(event, SecondPassed)


def ended(ago: float, *, is_seen: bool, code: int = 0, recording: Path | None = None) -> Collector:
    """Return what is told of a run of two workers that ended so many seconds before `fakes.NOW`."""
    spec, collector, memory = fakes.spec(), Collector(), RunMemory()
    alerts = RunAlerts(collector, command="Show it", recording=recording)
    state = fakes.folded(spec, *fakes.healthy_events(spec), findings=fakes.healthy_findings(spec))
    if is_seen:
        alerts.snapshot_taken(state.snapshot(fakes.NOW - ago - 1), memory)
    for task in spec.tasks:
        end = Exit(at=fakes.NOW - ago, code=code, signal=None, requested=False)
        over = fakes.frame(task, 2, of=fakes.status(TaskState.EXITED, exit=end))
        state.fold(FrameArrived(fakes.NOW, task, over, b""))
    for second in range(10):
        alerts.snapshot_taken(replace(state.snapshot(fakes.NOW + second), age=0.0), memory)
    return collector


def test_the_end_of_a_run_is_told_once_with_its_manner_and_time() -> None:
    (well,) = ended(1.0, is_seen=True).sent
    assert well.title == "ended: all tasks have ended well [digits]" and well.is_good
    assert "Ended at 0" in well.text
    (badly,) = ended(1.0, is_seen=True, code=3).sent
    assert badly.title == "ended: worker:0 exited 3 at 07:59:59 [digits]" and badly.severity == "critical"


def test_the_end_of_a_recorded_run_names_what_is_left_and_no_agent_that_is_gone() -> None:
    (seen,) = ended(1.0, is_seen=True, recording=Path("/runs/one")).sent
    assert seen.text.endswith(": tfscale-console replay /runs/one") and "Show it" not in seen.text
    (other,) = ended(1.0, is_seen=True).sent
    assert other.text.endswith("\nShow it")


def test_an_end_before_the_console_came_is_told_unless_it_is_long_ago() -> None:
    assert len(ended(LONG_AGO / 2, is_seen=False).sent) == 1
    assert ended(LONG_AGO * 2, is_seen=False).sent == []


def test_a_crash_of_long_ago_is_not_told_of_a_run_that_is_over() -> None:
    events = simulated(int(LONG_AGO) + 60, 3, "worker:1=kill@10s")
    assert told(events, 3, late_until=LONG_AGO + 50).sent == []
    assert len(told(events, 3).sent) == 1


def test_who_goes_on_with_the_work_of_another_console_tells_the_end_and_not_the_begin() -> None:
    events = simulated(50, 6, "worker:1=1.6x@10s-30s")
    for late_until in (0.0, 25.0, 45.0):
        (over,) = told(events, 6, late_until=late_until, known=[("straggler", "worker:1"), ("crash", "worker:2")]).sent
        assert over.title.startswith("over: worker:1 slow")
