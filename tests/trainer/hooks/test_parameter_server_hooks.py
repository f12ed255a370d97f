"""Hooks that stay in place when the probe of a chief gives up."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def hooks() -> Any:
    """Yield the hooks of a chief, put in place, and take all of them back at the end."""
    from tfscale.trainer.probe.graph.recorder import Recorder
    from tfscale.trainer.probe.hooks.parameter_server_hooks import ParameterServer
    from tfscale.trainer.probe.hooks.patches import Patches

    recorder = Recorder(on_failure=pytest.fail)
    server, patches = ParameterServer(recorder, on_server=lambda: None), Patches(on_fault=pytest.fail)
    server.install(patches)
    yield server
    server._executions.undo()
    patches.undo()


def is_hooked() -> bool:
    from tensorflow.python.distribute.coordinator.cluster_coordinator import Closure

    return hasattr(Closure.execute_on, "__wrapped__")


def test_workers_without_stamps_need_no_hook_any_more(hooks: Any) -> None:
    assert is_hooked()
    hooks.stop()
    assert not is_hooked()


def test_workers_whose_graphs_have_stamps_are_still_emptied(hooks: Any) -> None:
    from tfscale.trainer.probe.rows.remote_row_buffer import RemoteRowBuffer

    hooks._buffer = RemoteRowBuffer()
    hooks.stop()
    assert is_hooked()
