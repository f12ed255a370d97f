"""Tells somebody who does not look: a command, or a web address, for each event that matters."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from tfscale.core.wire.json_records import Json

WAITING = 256
"""Events that may wait for their turn; beyond that the oldest go, and that is said."""
PATIENCE = 30.0
"""Seconds for a command, and for an answer from the web address."""
TRIES = 3


class Notifier:
    """Runs a command, posts to a web address, or both: one event at a time, none ever waited for.

    Told are diagnoses that begin, grow worse or better, and end, and connections to agents that are lost and found.
    """

    def __init__(self, command: str | None = None, webhook: str | None = None) -> None:
        self._ways: list[Callable[[Json], Awaitable[None]]] = []
        if command is not None:
            self._ways.append(lambda line: _run(command, line))
        if webhook is not None:
            self._ways.append(lambda line: _post(webhook, line))
        self._waiting: deque[Json] = deque()
        self._filled = asyncio.Event()
        self._severities: dict[tuple[str, str, float], str] = {}
        self._lost: set[str] = set()
        self._dropped = 0
        self._is_closed = False

    def tell(self, line: Json) -> None:
        """Take a line of the type `diagnosis` or `link`."""
        if not self._is_news(line):
            return
        self._waiting.append(line)
        if len(self._waiting) > WAITING:
            self._waiting.popleft()
            self._dropped += 1
        self._filled.set()

    def close(self) -> None:
        """Nothing more will come."""
        self._is_closed = True
        self._filled.set()

    async def run(self) -> None:
        """Tell until closed and all is told."""
        while self._waiting or not self._is_closed:
            await self._filled.wait()
            self._filled.clear()
            while self._waiting:
                await self._tell_oldest()

    async def _tell_oldest(self) -> None:
        if self._dropped:
            _say(f"{self._dropped} events came too fast to be told")
            self._dropped = 0
        line = self._waiting.popleft()
        for way in self._ways:
            await way(line)

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
        _say(f"--on-event {command!r} was ended: it took longer than {PATIENCE:.0f} s")
    finally:
        if process.returncode is None:
            os.killpg(process.pid, 9)
            await process.wait()
    if process.returncode and process.returncode > 0:
        _say(f"--on-event {command!r} exited {process.returncode}")


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
            why = str(error)
            if isinstance(error, urllib.error.HTTPError) and error.code < 500:
                break
            await asyncio.sleep(2**attempt * random.uniform(0.5, 1.0))
    _say(f"--webhook {url}: {why}: one event was not told")


def _send(url: str, data: bytes) -> None:
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method="POST")
    with urllib.request.urlopen(request, timeout=PATIENCE):
        pass


def _say(text: str) -> None:
    print(f"tfscale-console: {text}", file=sys.stderr)
