"""The fold: the state that events add up to."""

from __future__ import annotations

from dataclasses import replace

import fakes
import pytest
from simulated_runs import simulated
from tfscale.console.analysis.findings import Findings, SubjectSummary
from tfscale.console.engine.events import (
    AgentDescribed,
    CommandProgressed,
    Event,
    FrameArrived,
    LinkChanged,
    LinkState,
    SecondPassed,
)
from tfscale.console.engine.model import TimelineEntry
from tfscale.console.engine.state import OUTCOME_SHOWN, ClusterState
from tfscale.console.engine.state_factory import states
from tfscale.console.engine.timeline.cluster_timeline import ENTRIES_KEPT
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.placement.placement import Placement
from tfscale.core.cluster.task import Role, Task
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.task_status import Exit, Stage, TaskState

FIRST, SECOND = fakes.worker(0), fakes.worker(1)
SPEC = fakes.spec(2)


def folded(*events: Event, findings: Findings | None = None) -> ClusterState:
    state = ClusterState(SPEC, fakes.FakeAnalysis(findings))
    for event in events:
        state.fold(event)
    return state


def said(state: ClusterState) -> list[tuple[str, str, str]]:
    moments: tuple[TimelineEntry, ...] = state.snapshot(fakes.NOW).timeline
    return [(entry.severity, entry.subject, entry.text) for entry in moments]


def arrived(state: TaskState, sequence: int = 2, task: Task = SECOND, **fields: object) -> FrameArrived:
    return FrameArrived(fakes.NOW, task, fakes.frame(task, sequence, of=fakes.status(state, **fields)))


def test_a_frame_is_kept_without_its_steps_and_analysed_with_them() -> None:
    analysis = fakes.FakeAnalysis()
    state = ClusterState(SPEC, analysis)
    state.fold(FrameArrived(fakes.NOW, FIRST, fakes.frame(FIRST)))
    view = state.snapshot(fakes.NOW).view(FIRST)
    assert view.frame == replace(fakes.frame(FIRST), steps=())
    assert analysis.frames == [("worker:0", fakes.frame(FIRST))]
    assert state.reporting == {FIRST}


def test_the_newest_snapshot_has_run_strategy_and_generation() -> None:
    state = folded(*fakes.healthy_events(SPEC))
    snapshot = state.snapshot(fakes.NOW)
    assert (snapshot.run, snapshot.strategy, snapshot.generation) == ("digits", "MultiWorkerMirroredStrategy", 1)
    assert snapshot.up == 2


def test_a_death_is_told_once_with_its_time_and_its_signal() -> None:
    state = folded(*fakes.killed_events(SPEC))
    state.fold(arrived(TaskState.EXITED, 3, pid=None, exit=Exit(None, 9, fakes.NOW - 4)))
    deaths = [text for severity, subject, text in said(state) if severity == "critical" and subject == "worker:1"]
    assert deaths == ["was killed by SIGKILL"]
    assert (
        next(entry.at for entry in state.snapshot(fakes.NOW).timeline if entry.subject == "worker:1") == fakes.NOW - 4
    )


def test_what_becomes_of_a_failed_task_is_told_once() -> None:
    end = Exit(None, 9, fakes.NOW - 4)
    state = folded(arrived(TaskState.EXITED, 2, exit=end))
    for sequence, at in ((3, fakes.NOW + 8), (4, fakes.NOW + 7)):
        state.fold(arrived(TaskState.EXITED, sequence, exit=end, reason="restart 2 of 10 within 1 h", restart_at=at))
    state.fold(arrived(TaskState.EXITED, 5, exit=end, reason="given up after worker:1 exited 3"))
    assert [text for _, _, text in said(state)] == [
        "was killed by SIGKILL",
        "restart 2 of 10 within 1 h",
        "given up after worker:1 exited 3",
    ]


def test_stragglers_of_one_sentence_are_one_event_when_they_begin_and_when_they_end() -> None:
    names = (str(FIRST), str(SECOND))
    both = [replace(fakes.straggler("both are slow"), subject=name, together=names) for name in names]
    state = folded(findings=Findings(tuple(both)))
    assert [text for _, _, text in said(state)] == ["both are slow"]
    over = tuple(replace(each, end=fakes.NOW, sentence="both were slow") for each in both)
    state = folded(findings=Findings(over))
    assert [text for _, _, text in said(state)] == ["both were slow"]


def test_a_task_that_is_met_running_is_no_event_and_a_restart_is() -> None:
    assert said(folded(arrived(TaskState.RUNNING))) == []
    state = folded(arrived(TaskState.RUNNING), arrived(TaskState.RUNNING, 3, generation=2))
    assert said(state) == [("good", "worker:1", "running, generation 2, attempt 1")]


def test_a_lost_connection_keeps_what_was_said_and_its_return_is_told() -> None:
    state = folded(*fakes.healthy_events(SPEC))
    state.fold(LinkChanged(fakes.NOW, SECOND, LinkState.DOWN, "connection refused"))
    view = state.snapshot(fakes.NOW).view(SECOND)
    assert view.frame is not None and view.is_stale and view.link.since == fakes.NOW
    state.fold(LinkChanged(fakes.NOW + 3, SECOND, LinkState.DOWN, "does not answer"))
    assert state.snapshot(fakes.NOW).view(SECOND).link.since == fakes.NOW
    state.fold(LinkChanged(fakes.NOW + 5, SECOND, LinkState.UP))
    assert said(state) == [
        ("warning", "worker:1", "agent down: connection refused"),
        ("good", "worker:1", "agent is back"),
    ]


def test_changes_are_new_diagnoses_and_their_end_but_not_new_numbers() -> None:
    analysis = fakes.FakeAnalysis(fakes.straggler_findings(SPEC))
    state = ClusterState(SPEC, analysis)
    assert state.snapshot(fakes.NOW).changes == analysis.findings.diagnoses
    (found,) = analysis.findings.diagnoses
    analysis.findings = Findings((replace(found, evidence={**found.evidence, "ratio": 2.2}),))
    assert state.snapshot(fakes.NOW).changes == ()
    ended = replace(found, end=fakes.NOW, sentence="worker:1 was 2x slower in input for 100 s")
    analysis.findings = Findings((ended,))
    assert state.snapshot(fakes.NOW).changes == (ended,)
    assert said(state)[-1] == ("good", "worker:1", ended.sentence)


def test_a_hang_is_told_once_though_its_sentence_tells_how_long_it_lasts() -> None:
    hang = Diagnosis("hang", "worker:1", fakes.NOW, None, "critical", "stuck (61 s)", {"quiet": 61.0})
    analysis = fakes.FakeAnalysis(Findings((hang,)))
    state = ClusterState(SPEC, analysis)
    assert state.snapshot(fakes.NOW).changes == (hang,)
    longer = replace(hang, sentence="stuck (62 s)", evidence={"quiet": 62.0})
    analysis.findings = Findings((longer,))
    assert state.snapshot(fakes.NOW).changes == ()
    ended = replace(longer, end=fakes.NOW)
    analysis.findings = Findings((ended,))
    assert state.snapshot(fakes.NOW).changes == (ended,)


def test_a_severity_that_grows_is_told_in_the_entry_of_its_begin() -> None:
    found = replace(fakes.straggler("slow"), severity="warning")
    analysis = fakes.FakeAnalysis(Findings((found,)))
    state = ClusterState(SPEC, analysis)
    number = state.snapshot(fakes.NOW).timeline[-1].number
    analysis.findings = Findings((replace(found, severity="critical", sentence="very slow"),))
    (entry,) = state.snapshot(fakes.NOW + 9).timeline
    assert (entry.at, entry.severity, entry.text, entry.number) == (fakes.NOW, "critical", "very slow", number)


@pytest.mark.parametrize(("severity", "cause"), [("critical", "unknown"), ("serious", "cpu")])
def test_a_severity_and_a_cause_that_change_are_told(severity: str, cause: str) -> None:
    found = replace(fakes.straggler(), severity="serious", evidence={"phase": "compute", "cause": "unknown"})
    analysis = fakes.FakeAnalysis(Findings((found,)))
    state = ClusterState(SPEC, analysis)
    state.snapshot(fakes.NOW)
    other = replace(found, severity=severity, evidence={"phase": "compute", "cause": cause})
    analysis.findings = Findings((other,))
    assert state.snapshot(fakes.NOW).changes == (other,)


def test_who_follows_a_death_is_told() -> None:
    death = Diagnosis("crash", "worker:1", fakes.NOW, None, "critical", "killed", {"followers": None})
    analysis = fakes.FakeAnalysis(Findings((death,)))
    state = ClusterState(SPEC, analysis)
    state.snapshot(fakes.NOW)
    more = replace(death, sentence="killed; worker:0 exited 1", evidence={"followers": ("worker:0",)})
    analysis.findings = Findings((more,))
    assert state.snapshot(fakes.NOW + 4).changes == (more,)


def test_a_picture_does_not_diagnose() -> None:
    analysis = fakes.FakeAnalysis(fakes.straggler_findings(SPEC))
    state = ClusterState(SPEC, analysis)
    state.snapshot(fakes.NOW)
    analysis.findings = Findings()
    picture = state.picture(fakes.NOW + 0.5)
    assert picture.changes == () and picture.findings.diagnoses == (fakes.straggler(),)


def test_diagnoses_and_summaries_come_to_the_task_of_their_subject() -> None:
    of_replicas = {f"worker:1/replica:{index}": SubjectSummary(lag=0.1 * index) for index in range(2)}
    diagnosis = replace(fakes.straggler(), subject="worker:1/replica:1")
    snapshot = folded(findings=Findings((diagnosis,), subjects=of_replicas)).snapshot(fakes.NOW)
    view = snapshot.view(SECOND)
    assert view.diagnoses == (diagnosis,) and set(view.replicas) == set(of_replicas)
    assert view.summary == of_replicas["worker:1/replica:1"]
    assert snapshot.view(FIRST).diagnoses == ()


def test_a_commands_outcome_stands_for_a_while_and_its_doing_is_told_once() -> None:
    state = folded(*fakes.healthy_events(SPEC))
    tasks = (FIRST, SECOND)
    state.fold(CommandProgressed(fakes.NOW, "restart", Stage.PLANNED, tasks, 2))
    state.fold(arrived(TaskState.STOPPING))
    state.fold(CommandProgressed(fakes.NOW, "restart", Stage.DONE, tasks, 2))
    assert [text for _, _, text in said(state)] == ["restart done, generation 2"]
    assert state.snapshot(fakes.NOW + OUTCOME_SHOWN).command is not None
    assert state.snapshot(fakes.NOW + OUTCOME_SHOWN + 1).command is None


def test_what_stands_is_told_to_a_recording_that_begins_now() -> None:
    state = folded(*fakes.healthy_events(SPEC), LinkChanged(fakes.NOW, SECOND, LinkState.REFUSED, "why"))
    known_links = state.known_links(5.0)
    links = [(event.task, event.state, event.reason) for event in known_links if isinstance(event, LinkChanged)]
    assert links == [(FIRST, LinkState.UP, ""), (SECOND, LinkState.REFUSED, "why")]
    assert [event.task for event in known_links if isinstance(event, AgentDescribed)] == [FIRST, SECOND]
    assert {event.at for event in known_links} == {5.0}


def test_stages_are_shown_with_their_task_and_are_no_replicas_of_it() -> None:
    of_all = {"worker:1": SubjectSummary(lag=0.5)} | {f"worker:1/stage:{n}": SubjectSummary(lag=n) for n in range(2)}
    view = folded(findings=Findings(subjects=of_all)).snapshot(fakes.NOW).view(SECOND)
    assert list(view.stages) == ["worker:1/stage:0", "worker:1/stage:1"]
    assert view.summary == of_all["worker:1"] and not view.replicas


def test_moments_are_bounded_and_in_the_order_of_their_times() -> None:
    state = folded()
    for number in range(ENTRIES_KEPT + 50):
        state.fold(LinkChanged(float(number + 1), FIRST, LinkState.DOWN if number % 2 else LinkState.UP))
    moments = state.snapshot(fakes.NOW).timeline
    assert len(moments) == ENTRIES_KEPT
    assert [entry.at for entry in moments] == sorted(entry.at for entry in moments)


def test_under_parameter_server_the_workers_are_expected_to_report() -> None:
    tasks = {Task(Role.CHIEF, 0): "a", Task(Role.WORKER, 0): "b", Task(Role.PS, 0): "c"}
    addresses = {task: Address(host, 2222) for task, host in tasks.items()}
    state = ClusterState(ClusterSpec("ps", addresses, addresses), fakes.FakeAnalysis())
    assert state.expected_to_report == {FIRST}


def test_a_state_without_a_history_is_the_same_in_all_else() -> None:
    full, bare = (ClusterState(SPEC, fakes.FakeAnalysis(), has_history=kept) for kept in (True, False))
    for event in (*fakes.healthy_events(SPEC), SecondPassed(fakes.NOW)):
        full.fold(event)
        bare.fold(event)
    assert full.snapshot(fakes.NOW) == bare.snapshot(fakes.NOW)
    assert full.snapshot(fakes.NOW).history is not None and bare.snapshot(fakes.NOW).history is None


def test_an_agent_that_left_is_told_as_that_and_not_as_down() -> None:
    analysis = fakes.FakeAnalysis()
    state = ClusterState(SPEC, analysis)
    for event in fakes.healthy_events(SPEC):
        state.fold(event)
    reason = "the agent left at 12:03:04 as it was asked to, and the task went on"
    state.fold(LinkChanged(fakes.NOW, SECOND, LinkState.LEFT, reason))
    assert ("warning", str(SECOND), reason) in said(state)
    assert analysis.left == {str(SECOND)}
    state.fold(LinkChanged(fakes.NOW + 2, SECOND, LinkState.UP))
    assert analysis.left == set()
    assert ("good", str(SECOND), "agent is back") in said(state)


def test_where_tasks_sit_now_is_taken_from_the_newest_placement_and_told_once() -> None:
    spare = Address("host-c", 7070)
    spec = replace(SPEC, spares={spare: Address("host-c", 2222)})
    state = ClusterState(spec, fakes.FakeAnalysis(None))
    host = spec.agents[SECOND].host
    moved = Placement(3, {**spec.agents, SECOND: spare}, {host: "failed 3 times within 1 h"})
    older, uncordoned = Placement(2, spec.agents), Placement(3, moved.seats, revision=1)
    for task, placement in ((FIRST, moved), (SECOND, moved), (SECOND, older), (FIRST, uncordoned)):
        description = replace(fakes.description(task), placement=placement.to_json())
        state.fold(AgentDescribed(fakes.NOW, task, description))
    assert {view.task: view.agent for view in state.snapshot(fakes.NOW).tasks}[SECOND] == spare
    assert said(state) == [
        ("warning", "cluster", f"{host} is cordoned: failed 3 times within 1 h; no task is placed there"),
        ("info", "cluster", "placed in generation 3: worker:1 to host-c"),
        ("info", "cluster", f"{host} is uncordoned: tasks may be placed there"),
    ]


def test_the_agent_of_another_host_is_not_the_first_that_is_back() -> None:
    spare = Address("host-c", 7070)
    spec = replace(SPEC, spares={spare: Address("host-c", 2222)})
    state = ClusterState(spec, fakes.FakeAnalysis(None))
    moved = replace(fakes.description(FIRST), placement=Placement(3, {**spec.agents, SECOND: spare}).to_json())
    state.fold(LinkChanged(fakes.NOW, SECOND, LinkState.UP))
    state.fold(LinkChanged(fakes.NOW, SECOND, LinkState.DOWN, "does not answer"))
    state.fold(AgentDescribed(fakes.NOW, FIRST, moved))
    state.fold(LinkChanged(fakes.NOW, SECOND, LinkState.UP))
    assert said(state)[-1] == ("info", str(SECOND), "its agent is the one at host-c:7070 now")


def test_a_straggler_that_ends_with_the_steps_is_no_good_news() -> None:
    state, told = states(simulated_spec(3))(), []
    for event in simulated(40, 3, "worker:1=1.6x@5s", "worker:1=stop@25s"):
        state.fold(event)
        if isinstance(event, SecondPassed):
            told = state.snapshot(event.at).timeline
    of_straggler = [(entry.severity, entry.text.partition(" for ")[0]) for entry in told if entry.kind == "straggler"]
    assert of_straggler[-1] == ("info", "worker:1 was 1.6x slower in compute")
