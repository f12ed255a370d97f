"""Word to the agent that the probe could not start in this process.

It needs the standard library alone, and little of ours: what has kept the probe from starting may be any of the rest.
"""

from __future__ import annotations

import os
import platform
import socket
import sys

from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.core.wire.framing import framed
from tfscale.trainer.probe.process.agent_socket import connect
from tfscale.trainer.probe.process.agent_variables import agent_variable
from tfscale.trainer.probe.report.encoding import encoded

_PATIENCE = 2.0
"""Seconds for the agent to take the word: a busy one takes some tenths, and a script must not wait for a dead one."""


class _Fields(dict):  # type: ignore[type-arg]
    """Fields of a message as a record that has none but these: our records may be what does not load."""

    __getattr__ = dict.get


def tell(error: Exception) -> None:
    """Tell the agent why this process is neither measured nor repaired, if the agent can be reached."""
    hello = _Fields(
        schema_version=SCHEMA_VERSION,
        task=agent_variable("TFSCALE_TASK"),
        generation=int(agent_variable("TFSCALE_GENERATION") or 0),
        attempt=int(agent_variable("TFSCALE_ATTEMPT") or 0),
        pid=os.getpid(),
    )
    status = _Fields(state=_Fields(name="ABSENT"), message=_sentence(error))
    report = encoded("TaskReport", _Fields(hello=hello, probe=status))
    try:
        with socket.socket(socket.AF_UNIX) as agent:
            agent.settimeout(_PATIENCE)
            connect(agent, agent_variable("TFSCALE_REPORT") or "")
            agent.sendall(framed(report))
    except OSError as refused:
        print(f"tfscale: the agent cannot be told of it: {refused}", file=sys.stderr)


def _sentence(error: Exception) -> str:
    """Return the sentence on what has happened, and what to do."""
    python = platform.python_version()
    version = getattr(sys.modules.get("tensorflow"), "__version__", "of an unknown version")
    return (
        f"the probe could not start in its process {os.getpid()}: {error!r}, with Python {python} and TensorFlow "
        f"{version}: install all of tfscale anew beside its agent, or report this with the task's log"
    )
