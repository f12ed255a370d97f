"""Questions to an operator before a command is sent."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import fakes
import pytest
from tfscale.console.engine.checkpoint_age import Untrained, untrained_since
from tfscale.console.engine.events import FrameArrived, SecondPassed
from tfscale.console.engine.state import ClusterState
from tfscale.console.tui.dialogs.confirm import ConfirmScreen, Question, wording
from tfscale.console.tui.dialogs.task_orders import Orders
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.core.access.orders import ORDERS
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.task import Task
from tfscale.core.records.probe_status import ProbeState, ProbeStatus

TASKS = tuple(map(Task.parse, ("chief:0", "worker:0", "worker:1", "ps:0")))
SERVERS = ClusterSpec("digits", *({task: Address("127.0.0.1", 2000 + n) for n, task in enumerate(TASKS)} for _ in "ab"))


def asked(*names: str) -> Any:
    """Return the question before these tasks of a cluster with servers restart, while its strategy is not known."""
    state = ClusterState(SERVERS, fakes.FakeAnalysis())
    snapshot = state.snapshot(fakes.NOW)
    assert snapshot.strategy is None
    shown: list[ConfirmScreen] = []
    app: Any = SimpleNamespace(push_screen=lambda screen, _: shown.append(screen))
    engine: Any = SimpleNamespace(source=SimpleNamespace(spec=SERVERS))
    Orders(app, engine, fakes.FakeCommands()).ask(
        ORDERS["restart"], tuple(map(Task.parse, names)), snapshot, Appearance()
    )
    return shown[0].question


def test_a_worker_loses_nothing_where_servers_hold_what_it_trained() -> None:
    question = asked("worker:1")
    assert question.touched == (Task.parse("worker:1"),)
    assert question.keeps


def test_a_server_does() -> None:
    question = asked("ps:0")
    assert question.touched == (Task.parse("chief:0"), Task.parse("ps:0"))
    assert not question.keeps


def restart_of_one(probe: ProbeStatus | None) -> tuple[list[str], str]:
    """Return the tasks that restart with worker:1 of two, and the question, where both report this status."""
    spec = fakes.spec(2)
    state = ClusterState(spec, fakes.FakeAnalysis())
    for task in spec.tasks:
        state.fold(FrameArrived(fakes.NOW, task, replace(fakes.frame(task), probe=probe)))
    shown: list[ConfirmScreen] = []
    app: Any = SimpleNamespace(push_screen=lambda screen, _: shown.append(screen))
    orders = Orders(app, SimpleNamespace(source=SimpleNamespace(spec=spec)), fakes.FakeCommands())  # type: ignore[arg-type]
    orders.ask(ORDERS["restart"], (fakes.worker(1),), state.snapshot(fakes.NOW), Appearance())
    return [str(task) for task in shown[0].question.touched], wording(shown[0].question, Appearance()).plain


def test_a_worker_restarts_alone_once_it_is_known_that_no_strategy_joins_it() -> None:
    touched, asked = restart_of_one(ProbeStatus(ProbeState.MEASURING, replicas=1, local_replicas=1))
    assert touched == ["worker:1"] and "You selected" not in asked
    touched, asked = restart_of_one(None)
    assert touched == ["worker:0", "worker:1"]
    assert "You selected worker:1; no strategy is known, all may train in lock step." in asked


def test_a_question_names_the_price_in_steps_and_time() -> None:
    asked = partial(Question, strategy="MultiWorkerMirroredStrategy", generation=1, checkpoint_age=59.0)
    workers = tuple(map(fakes.worker, range(64)))
    question = asked("restart", workers[50:51], workers, untrained=Untrained(440, 57.0, 4210), total=64)
    assert wording(question, Appearance()).plain.splitlines() == [
        "Restart all 64 workers?",
        "",
        "You selected worker:50; all train in lock step.",
        "Last checkpoint 59 s ago (step 4,210): about 440 steps, 57 s, are repeated.",
    ]
    still = asked("restart", workers[:1], workers[:1], untrained=Untrained(0, 0.0, 4210), total=64)
    assert wording(still, Appearance()).plain.endswith("Last checkpoint 59 s ago: nothing was trained since.")
    some = asked("stop", workers[:5], workers[:5], total=64)
    assert wording(some, Appearance()).plain.splitlines() == [
        "Stop 5 of 64 tasks?",
        "",
        "Last checkpoint 59 s ago: what was trained since is lost.",
    ]


@pytest.mark.parametrize(
    ("age", "later", "steps", "step"),
    [(2.0, 1.0, 3, 4), (10.0, 30.0, 0, 7), (300.0, 1.0, 4500, None), (None, 1.0, None, None)],
)
def test_untrained_steps_are_counted_or_follow_from_the_rate(
    age: float | None, later: float, steps: int | None, step: int | None
) -> None:
    spec = fakes.spec(2)
    findings = fakes.healthy_findings(spec)
    subjects = {name: replace(each, global_step=7) for name, each in findings.subjects.items()}
    findings = replace(findings, steps_per_second=15.0, subjects=subjects)
    state = ClusterState(spec, fakes.FakeAnalysis(findings))
    for event in fakes.healthy_events(spec):
        state.fold(event)
    state.fold(SecondPassed(fakes.NOW + later))
    found = untrained_since(state.snapshot(fakes.NOW + later), tuple(spec.tasks), age)
    assert (found.steps, found.step) == (steps, step) if found else steps is None


async def test_a_restart_without_a_host_concerns_all_that_train_and_names_the_host() -> None:
    state = ClusterState(SERVERS, fakes.FakeAnalysis())
    shown: list[Any] = []
    app: Any = SimpleNamespace(push_screen=lambda screen, answered: shown.append((screen.question, answered)))
    steps: list[Any] = []
    app.run_worker = lambda work, **_: steps.append(work)
    source = SimpleNamespace(spec=SERVERS, now=lambda: fakes.NOW)
    engine: Any = SimpleNamespace(source=source, inbox=SimpleNamespace(put=lambda _: None))
    commands = fakes.FakeCommands()
    orders = Orders(app, engine, commands)
    orders.ask(ORDERS["restart_without"], (Task.parse("worker:1"),), state.snapshot(fakes.NOW), Appearance())
    question, answered = shown[0]
    assert (question.touched, question.without) == (TASKS, "127.0.0.1")
    assert "Restart all 4 tasks without 127.0.0.1?" in wording(question, Appearance()).plain
    answered(False)
    assert steps == []
    answered(True)
    await steps[0]
    assert commands.without == ["127.0.0.1"] and commands.orders == []


async def test_a_signal_goes_to_each_task_that_is_chosen() -> None:
    snapshot = ClusterState(SERVERS, fakes.FakeAnalysis()).snapshot(fakes.NOW)
    answers: list[Any] = []
    steps: list[Any] = []
    app: Any = SimpleNamespace(push_screen=lambda _, answered: answers.append(answered))
    app.run_worker = lambda work, **_: steps.append(work)
    app.notify = lambda _, **__: None
    commands = fakes.FakeCommands()
    nobody: Any = SimpleNamespace()
    Orders(app, nobody, commands).ask(ORDERS["signal"], TASKS[1:3], snapshot, Appearance())
    answers[0]("USR1")
    for step in steps:
        await step
    assert commands.carried_out == [("signal", task, "USR1") for task in TASKS[1:3]]


async def test_a_host_is_uncordoned_by_its_name() -> None:
    snapshot = replace(ClusterState(SERVERS, fakes.FakeAnalysis()).snapshot(fakes.NOW), cordoned={"b": "failed"})
    answers: list[Any] = []
    steps: list[Any] = []
    app: Any = SimpleNamespace(push_screen=lambda _, answered: answers.append(answered))
    app.run_worker = lambda work, **_: steps.append(work)
    notes: list[str] = []
    app.notify = lambda words, **_: notes.append(words)
    commands = fakes.FakeCommands()
    nobody: Any = SimpleNamespace()
    Orders(app, nobody, commands).ask(ORDERS["uncordon"], (), snapshot, Appearance())
    answers[0](None)
    answers[0](" b ")
    await steps[0]
    assert commands.carried_out == [("uncordon", None, "b")] and len(steps) == 1
    assert notes == ["b is done"]
