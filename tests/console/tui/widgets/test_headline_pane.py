"""The top line under ten faults: who is slow or stuck, why, and what to do, also for a first reader."""

from __future__ import annotations

from dataclasses import replace

import fakes
import pytest
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.stragglers.straggler_rule import Suspect
from tfscale.console.engine.events import CommandProgressed, Event, LinkChanged, LinkState, SecondPassed
from tfscale.console.engine.model import Link, Snapshot
from tfscale.console.engine.state import ClusterState
from tfscale.console.sources.simulation.simulated_cluster import SimulatedCluster
from tfscale.console.sources.simulation.simulated_faults import Fault
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.panes.headline_pane import headline, headline_lines
from tfscale.core.cluster.task import Task
from tfscale.core.records.task_status import Exit, Stage, TaskState, TaskStatus
from tfscale.core.text import clock

BEGIN = fakes.NOW


def watched(fault: str, seconds: int) -> Snapshot:
    cluster = fakes.spec(4)
    state = ClusterState(cluster, Diagnostician(cluster))
    faults = (Fault.parse(fault),) if fault else ()
    second = 1
    snapshot = state.picture(BEGIN)
    for event in SimulatedCluster(cluster, faults, rate=10.0, seed=3).arrivals(BEGIN):
        while _at(event) >= BEGIN + second:
            snapshot = state.snapshot(BEGIN + second)
            second += 1
        if second > seconds:
            return snapshot
        state.fold(event)
    return snapshot


def _at(event: Event) -> float:
    assert not isinstance(event, SecondPassed)
    return event.at


@pytest.mark.parametrize(
    ("fault", "seconds", "said", "advised"),
    [
        ("worker:2=1.5x@2s", 25, ["worker:2 has been slow for", "compute takes", "loses"], "nvidia-smi"),
        ("worker:2=40ms,input@2s", 25, ["worker:2 has been slow", "waiting for data", "loses"], "prefetch"),
        (
            "worker:2=40ms,host@2s",
            25,
            ["worker:2 has been slow", "Python between steps", "callbacks", "loses"],
            "callbacks",
        ),
        ("worker:2=40ms,update@2s", 25, ["worker:2 has been slow", "the update takes", "loses"], "GPU"),
        ("worker:2=thermal@2s", 25, ["worker:2 has been slow", "throttled by heat", "loses"], "cooling"),
        ("worker:2=cpu@2s", 25, ["worker:2 has been slow", "compete for its CPUs", "loses"], "other programs"),
        ("worker:2=kill@10s", 20, ["worker:2 was killed by SIGKILL at", "because their peer was gone"], "restart"),
        ("worker:2=hang@5s", 75, ["worker:2 has been stuck for", "has not entered the all-reduce"], "Python is"),
        (
            "worker:2=nan@5s",
            20,
            ["worker:2", "were the first with NaN or infinity"],
            "look at the batch that worker:2 had",
        ),
        (
            "worker:2=cut@5s",
            20,
            ["cannot reach worker:2's agent since", "hear it: it lives"],
            "look at the way from here",
        ),
        ("worker:2=stop@5s", 12, ["no step for", "a signal has stopped the process of worker:2"], "kill -CONT"),
        ("worker:2=stop@5s", 20, ["worker:2 has been stuck for", "a signal has stopped its process"], "kill -CONT"),
        ("worker:2=gone@5s", 12, ["worker:2's host does not answer to anyone"], "see whether its host is up"),
        # Before it is called a hang:
        (
            "worker:2=hang@5s",
            20,
            ["no step for", "worker:2 has not entered the all-reduce"],
            "b on the page of worker:2",
        ),
    ],
)
def test_the_top_line_says_who_and_why(fault: str, seconds: int, said: list[str], advised: str) -> None:
    snapshot = watched(fault, seconds)
    severity, sentence = headline(snapshot)
    assert severity not in ("good", "info")
    for words in said:
        assert words in sentence, sentence
    lines = [line.plain for line in headline_lines(snapshot, Appearance(), 78)]
    shown = " ".join(" ".join(line.split()) for line in lines)
    assert sentence in shown and advised in shown, shown
    assert max(map(len, lines)) <= 78 and len(lines) <= 4


def test_a_healthy_cluster_is_called_so() -> None:
    snapshot = watched("", 25)
    assert headline(snapshot)[0] == "good"
    assert "healthy: 4 workers in step" in headline(snapshot)[1]


def test_the_first_seconds_are_not_called_good() -> None:
    severity, sentence = headline(watched("", 4))
    assert severity == "info"
    assert sentence.endswith(" s are too short to name a straggler")


@pytest.mark.parametrize(("width", "lines"), [(140, 1), (70, 2)])
def test_who_looks_slow_is_told_in_grey_behind_the_sentence_or_below_it(width: int, lines: int) -> None:
    cluster, suspect = fakes.spec(4), Suspect("worker:3", fakes.NOW - 4)
    findings = replace(fakes.healthy_findings(cluster), suspect=suspect)
    snapshot = fakes.folded(cluster, *fakes.healthy_events(cluster), findings=findings).snapshot(fakes.NOW)
    appearance = Appearance()
    shown = headline_lines(snapshot, appearance, width)
    words = "worker:3 looks slow, 4 s; not yet beyond noise"
    assert len(shown) == lines and shown[-1].plain.endswith(f" {words}")
    (grey,) = [span for span in shown[-1].spans if span.style == appearance.palette.dim] or [shown[-1]]
    assert appearance.palette.dim in str(grey.style)
    assert headline(snapshot) == ("good", findings.headline)


def test_a_snapshot_that_is_outdated_is_not_told_as_now() -> None:
    cluster = fakes.spec(2)
    now = fakes.folded(cluster, *fakes.healthy_events(cluster), findings=fakes.healthy_findings(cluster)).snapshot(
        fakes.NOW
    )
    (line, *_) = headline_lines(replace(now, age=75.0), Appearance(), 200)
    assert line.plain[2:] == f"as of {clock(fakes.NOW)}, 75 s ago: {now.findings.headline}"


def test_a_command_is_of_now_beside_a_snapshot_that_is_outdated() -> None:
    cluster = fakes.spec(2)
    progress = CommandProgressed(fakes.NOW, "restart", Stage.DONE, (Task("worker", 1),), 2)
    events = [*fakes.healthy_events(cluster), progress]
    now = fakes.folded(cluster, *events, findings=fakes.healthy_findings(cluster)).snapshot(fakes.NOW)
    (line, *_) = headline_lines(replace(now, age=75.0), Appearance(), 200)
    assert line.plain[2:] == "Restarted worker:1, generation 2"


def ended(code: int) -> Snapshot:
    """Return a cluster of two, whose agents ended after their tasks; the second exited with this code."""
    cluster = fakes.spec(2)
    views = []
    for index, exit_code in enumerate((0, code)):
        view = fakes.task_view(cluster, fakes.worker(index))
        assert view.frame is not None
        status = TaskStatus(TaskState.EXITED, 1, 1, exit=Exit(exit_code, None, fakes.NOW - 5))
        views.append(
            replace(view, link=Link(LinkState.DOWN, "refused", fakes.NOW), frame=replace(view.frame, status=status))
        )
    return Snapshot(fakes.NOW, "run", None, 1, tuple(views), fakes.healthy_findings(cluster))


def test_a_run_that_has_ended_is_no_breakdown() -> None:
    severity, sentence = headline(ended(0))
    at = clock(fakes.NOW - 5)
    assert (severity, sentence) == ("good", f"all tasks have ended well, at {at}; their agents have ended, too")
    assert not any("agent run" in line.plain for line in headline_lines(ended(0), Appearance(), 120))
    assert headline(ended(1))[1].startswith(f"all tasks have ended, at {at}, worker:1 with a failure")


def test_agents_whose_tasks_are_placed_anew_are_not_said_to_have_ended() -> None:
    """The lead's agent was killed while tasks moved, and a run that went on was told as one that had ended."""
    killed, moved = ended(0).tasks
    moved = replace(moved, link=Link(LinkState.MOVED, "tasks are placed anew since 12:00:00", fakes.NOW))
    severity, sentence = headline(replace(ended(0), tasks=(killed, moved)))
    told = "tasks are placed anew since 12:00:00: waiting for the agents that hold them now"
    assert (severity, sentence) == ("warning", told)
    assert headline(replace(ended(0), tasks=(moved,))) == ("info", told)


def test_agents_of_another_cluster_are_told_in_a_short_line() -> None:
    cluster = fakes.spec(64)
    views = tuple(
        replace(
            fakes.task_view(cluster, fakes.worker(index)),
            link=Link(LinkState.REFUSED, f"this is worker:{index} of run theirs", fakes.NOW),
        )
        for index in range(64)
    )
    snapshot = Snapshot(fakes.NOW, "run", None, 1, views, fakes.healthy_findings(cluster))
    reasons = "this is worker:0 of run theirs or this is worker:1 of run theirs (and 62 more)"
    assert headline(snapshot) == ("warning", f"Each agent refuses: {reasons}")
    assert not any("agent run" in line.plain for line in headline_lines(snapshot, Appearance(), 120))


def test_agents_that_are_only_being_connected_to_are_no_warning() -> None:
    cluster = fakes.spec(2)
    state = ClusterState(cluster, Diagnostician(cluster))
    assert headline(state.snapshot(BEGIN)) == ("info", "connecting to 2 agents")
    state.fold(LinkChanged(BEGIN + 1, fakes.worker(0), LinkState.DOWN, "connection refused"))
    assert headline(state.snapshot(BEGIN + 1)) == ("warning", "No agent answers: connection refused")
