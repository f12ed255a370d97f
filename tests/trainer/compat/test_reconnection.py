"""Pause of a chief that was started again, while other tasks look for a lost server once a second."""

from __future__ import annotations

import contextlib
import time

import pytest
from tfscale.trainer.compat import reconnection

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(
    ("generation", "attempt", "waits"), [(None, None, False), ("1", "1", False), ("2", "1", True), ("1", "2", True)]
)
def test_only_a_chief_that_was_started_again_waits_after_it_has_connected(
    generation: str | None, attempt: str | None, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow as tf

    for name, value in (("TFSCALE_GENERATION", generation), ("TFSCALE_ATTEMPT", attempt)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    did: list[object] = []
    kind = tf.distribute.ParameterServerStrategy
    monkeypatch.setattr(kind, "_connect_to_cluster", lambda _self, coordinator_name: did.append(coordinator_name))
    monkeypatch.setattr(time, "sleep", did.append)
    reconnection.repair(tf)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"chief": ["h:1"], "worker": ["h:2"], "ps": ["h:3"]}), task_type="chief", task_id=0
    )
    with contextlib.suppress(AttributeError):  # Nothing was connected: the strategy cannot be made.
        tf.distribute.experimental.ParameterServerStrategy(resolver)
    assert did == (["chief", 1.5] if waits else ["chief"])
