"""Notifications: a command or a web request for each important event."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import sys
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from tfscale.core.wire.json_records import Json

_logger = logging.getLogger(__name__)
WAITING = 256
"""Events that may wait; beyond it the oldest are dropped, and a message says how many."""
PATIENCE = 30.0
"""Seconds for a command to end, and for the web address to answer."""
TRIES = 3


class Notifier:
    """Reporter of events to a command, a web address or both, one event at a time, without delaying the console.

    It reports diagnoses that begin, change their severity or end, and agents that are lost and found.
    """

    def __init__(self, command: str | None = None, webhook: str | None = None) -> None:
        self._channels: list[Callable[[Json], Awaitable[None]]] = []
        if command is not None:
            self._channels.append(lambda line: _run(command, line))
        if webhook is not None:
            self._channels.append(lambda line: _post(webhook, line))
        self._waiting: deque[Json] = deque()
        self._filled = asyncio.Event()
        self._severities: dict[tuple[str, str, float], str] = {}
        self._lost: set[str] = set()
        self._dropped = 0
        self._is_closed = False

    def report(self, line: Json) -> None:
        """Take a line of the type `diagnosis` or `link`."""
        if not self._is_news(line):
            return
        self._waiting.append(line)
        if len(self._waiting) > WAITING:
            self._waiting.popleft()
            self._dropped += 1
        self._filled.set()

    def close(self) -> None:
        """End `run` once all waiting events are reported."""
        self._is_closed = True
        self._filled.set()

    async def run(self) -> None:
        """Report events until closed and none is left."""
        while self._waiting or not self._is_closed:
            await self._filled.wait()
            self._filled.clear()
            while self._waiting:
                await self._report_oldest()

    async def _report_oldest(self) -> None:
        if self._dropped:
            _logger.warning("%d events were dropped: they came faster than they could be reported", self._dropped)
            self._dropped = 0
        line = self._waiting.popleft()
        for channel in self._channels:
            await channel(line)

    def _is_news(self, line: Json) -> bool:
        if line["type"] == "link":
            was_lost = line["task"] in self._lost
            is_lost = line["state"] != "up"
            (self._lost.add if is_lost else self._lost.discard)(line["task"])
            return is_lost is not was_lost
        key = (line["kind"], line["subject"], line["begin"])
        before = self._severities.get(key)
        self._severities[key] = line["severity"]
        if line["end"] is not None:
            del self._severities[key]
        return before != line["severity"] or line["end"] is not None


async def _run(command: str, line: Json) -> None:
    environment = os.environ | {f"TFSCALE_EVENT_{name.upper()}": _plain(line.get(name)) for name in _NAMED}
    process = await asyncio.create_subprocess_shell(
        command, stdin=asyncio.subprocess.PIPE, stdout=sys.stderr, env=environment, start_new_session=True
    )
    try:
        async with asyncio.timeout(PATIENCE):
            await process.communicate(json.dumps(line).encode() + b"\n")
    except TimeoutError:
        _logger.warning("--on-event %r was ended: it took longer than %.0f s", command, PATIENCE)
    finally:
        if process.returncode is None:
            os.killpg(process.pid, 9)
            await process.wait()
    if process.returncode and process.returncode > 0:
        _logger.warning("--on-event %r exited %d", command, process.returncode)


_NAMED = ("type", "kind", "subject", "severity", "sentence", "begin", "end", "task", "state", "reason")


def _plain(value: Any) -> str:
    return "" if value is None else str(value)


async def _post(url: str, line: Json) -> None:
    data = json.dumps(line).encode()
    for attempt in range(TRIES):
        try:
            await asyncio.to_thread(_send, url, data)
            return
        except (OSError, ValueError) as error:
            reason = str(error)
            if isinstance(error, urllib.error.HTTPError) and error.code < 500:
                break
            await asyncio.sleep(2**attempt * random.uniform(0.5, 1.0))
    _logger.warning("--webhook %s: %s: one event was not sent", url, reason)


def _send(url: str, data: bytes) -> None:
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method="POST")
    with urllib.request.urlopen(request, timeout=PATIENCE):
        pass
