"""Attempts to reach other tasks and their agents, and the rate at which another host can be sent to."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Sequence

from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.many_questions import ask_each
from tfscale.core.cluster.task import Task
from tfscale.core.errors import UsageError
from tfscale.core.preflight.examination import MOST_TASKS, Contact, Transfer

_PATIENCE = 3.0
"""Seconds for a connection: TCP repeats a lost request for a connection after 1 s, and again after 2 s more."""
_AT_ONCE = 32
"""Connections at a time: the 128 tasks of one request take 12 s at most if none answers."""
_CHUNK = bytes(1 << 20)
_MOST_SECONDS = 5.0


async def reach(spec: ClusterSpec, tasks: Sequence[Task]) -> tuple[Contact, ...]:
    """Try to connect to each of these tasks and to their agents. Raises UsageError for tasks that are not there."""
    if strangers := [str(task) for task in tasks if task not in spec.tasks]:
        raise UsageError(f"the cluster has no {', '.join(strangers[:4])}")
    if len(tasks) > MOST_TASKS:
        raise UsageError(f"{len(tasks)} tasks: at most {MOST_TASKS} at a time")
    asked = [(task, False, spec.tasks[task]) for task in tasks] + [(task, True, spec.agents[task]) for task in tasks]
    troubles = await ask_each(lambda each: _why_not_reached(each[2]), asked, _AT_ONCE)
    return tuple(
        Contact(str(task), is_agent, str(address), trouble)
        for (task, is_agent, address), trouble in zip(asked, troubles, strict=True)
    )


async def _why_not_reached(address: Address) -> str:
    try:
        async with asyncio.timeout(_PATIENCE):
            _, writer = await asyncio.open_connection(address.host, address.port)
    except TimeoutError:
        return f"no answer in {_PATIENCE:g} s"
    except socket.gaierror as error:
        return f"{address.host}: {error.strerror}"
    except OSError as error:
        return os.strerror(error.errno).lower() if error.errno else str(error)
    writer.close()
    return ""


async def send(host: str, port: int, seconds: float) -> Transfer:
    """Send to a port that takes all data, for `seconds`, and wait until they have arrived. Raises UsageError."""
    if not 0 < seconds <= _MOST_SECONDS:
        raise UsageError(f"{seconds:g} seconds: give more than 0, and at most {_MOST_SECONDS:g}")
    return await asyncio.to_thread(_send, host, port, seconds)


def _send(host: str, port: int, seconds: float) -> Transfer:
    sent, begin = 0, time.monotonic()
    try:
        with socket.create_connection((host, port), timeout=_PATIENCE) as connection:
            begin = time.monotonic()
            while time.monotonic() - begin < seconds:
                sent += connection.send(_CHUNK)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)  # it is closed on the other side when that has taken all
    except TimeoutError:
        return Transfer(sent, time.monotonic() - begin, f"no answer in {_PATIENCE:g} s")
    except OSError as error:
        return Transfer(sent, time.monotonic() - begin, (error.strerror or str(error)).lower())
    return Transfer(sent, time.monotonic() - begin)
