"""Pause of a restarted chief of a ParameterServer cluster, in which the other tasks find their new server.

A task that has lost a server tries to reach it once a second (with gRPC's jitter: every 0.8 to 1.2 s), and between two
tries every request to the server fails at once. Such a failure names the server, and then stock TensorFlow (seen with
2.21.0) ends the chief: two of eleven chiefs that were restarted together with their server ended so, with the server
up.
"""

from __future__ import annotations

import functools
import time
from typing import Any

import tensorflow as tf
from tfscale.trainer.probe.process.agent_variables import agent_variable

_RETRY_SECONDS = 1.2
"""Longest time between two tries of a task. A shorter pause would leave some task without its server; a longer one only
delays the restart."""
_ANSWER_SECONDS = 0.3
"""Time that one try may take on a busy host."""


def repair(tensorflow: Any) -> None:  # noqa: ARG001
    """Have a restarted chief wait until every other task has tried to reach the found servers."""
    kind = tf.distribute.ParameterServerStrategy
    connect = kind._connect_to_cluster

    @functools.wraps(connect)
    def connected(self: Any, *args: Any, **kwargs: Any) -> None:
        connect(self, *args, **kwargs)
        if _is_restarted():
            time.sleep(_RETRY_SECONDS + _ANSWER_SECONDS)

    kind._connect_to_cluster = connected


def _is_restarted() -> bool:
    return any(int(agent_variable(name) or "1") > 1 for name in ("TFSCALE_GENERATION", "TFSCALE_ATTEMPT"))
