"""The chief of a ParameterServer cluster, started again, gives the tasks that stayed time to find a new server.

Whoever lost a server tries to reach it once a second (with gRPC's jitter: every 0.8 to 1.2 s), and fails at once what
is asked of it between two tries. Such a failure names the server, for which stock TensorFlow (seen with 2.21.0) ends
the chief: two of eleven chiefs that were started anew together with their server ended so, with the server up.
"""

from __future__ import annotations

import functools
import os
import time
from typing import Any

from tensorflow.python.distribute import parameter_server_strategy_v2

_RETRY_SECONDS = 1.2
_ANSWER_SECONDS = 0.3
"""What a try may take on a busy host."""


def repair(tensorflow: Any) -> None:  # noqa: ARG001
    """Wait where a strategy has found all servers: from then on each try of anybody's succeeds."""
    kind = parameter_server_strategy_v2.ParameterServerStrategyV2
    connect = kind._connect_to_cluster

    @functools.wraps(connect)
    def connected(self: Any, *args: Any, **kwargs: Any) -> None:
        connect(self, *args, **kwargs)
        if _is_started_again():
            time.sleep(_RETRY_SECONDS + _ANSWER_SECONDS)

    kind._connect_to_cluster = connected


def _is_started_again() -> bool:
    return any(int(os.environ.get(name, "1")) > 1 for name in ("TFSCALE_GENERATION", "TFSCALE_ATTEMPT"))
