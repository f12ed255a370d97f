"""Questions to an operator before a command is sent."""

from types import SimpleNamespace
from typing import Any

import fakes
from tfscale.console.engine.state import ClusterState
from tfscale.console.tui.dialogs.confirm import ConfirmScreen
from tfscale.console.tui.dialogs.task_orders import Orders
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.task import Task

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
    Orders(app, engine, fakes.FakeCommands()).ask("restart", tuple(map(Task.parse, names)), snapshot, Appearance())
    return shown[0].question


def test_a_worker_loses_nothing_where_servers_hold_what_it_trained() -> None:
    question = asked("worker:1")
    assert question.touched == (Task.parse("worker:1"),)
    assert question.keeps


def test_a_server_does() -> None:
    question = asked("ps:0")
    assert question.touched == (Task.parse("chief:0"), Task.parse("ps:0"))
    assert not question.keeps
