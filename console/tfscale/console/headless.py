"""The console without a screen: one JSON object a line, for logs and scripts. docs/schema.md has every field."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import signal
import time
from collections.abc import Callable
from typing import Any, TextIO

from tfscale.console.events import AgentDescribed, Event, FrameArrived, LinkChanged
from tfscale.console.model import ClusterState
from tfscale.console.sources import Inbox, Source
from tfscale.core.cluster import ClusterSpec
from tfscale.core.codec import Json, diagnosis_to_json, encode, frame_to_json
from tfscale.core.records import SCHEMA_VERSION

_BUNCH = 64


class Headless:
    """Writes what a source gives, until it is told to stop, its reader goes, or `seconds` of training were seen."""

    def __init__(self, spec: ClusterSpec, source: Source, state: ClusterState, out: TextIO) -> None:
        self._spec = spec
        self._source = source
        self._state = state
        self._out = out
        self._stop = asyncio.Event()
        self.collected = 0
        """Frames written."""

    async def run(self, seconds: float | None = None) -> None:
        """Write until the end. `seconds` count from when every training task has shown its first step.

        Raises BrokenPipeError when the reader of the output has gone.
        """
        loop = asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, self._stop.set)
        inbox = Inbox()
        self._write(_header(self._spec))
        self._out.flush()
        jobs = [asyncio.create_task(job) for job in (self._source.run(inbox), self._fold(inbox), self._tick(seconds))]
        stopped = asyncio.create_task(self._stop.wait())
        await asyncio.wait([*jobs, stopped], return_when=asyncio.FIRST_COMPLETED)
        await _end([*jobs, stopped])
        self._fold_rest(inbox)
        self._diagnose()
        self._out.flush()

    async def _fold(self, inbox: Inbox) -> None:
        while True:
            await inbox.wait()
            for event in inbox.take(_BUNCH):
                self._take(event)
            await asyncio.sleep(0)

    def _fold_rest(self, inbox: Inbox) -> None:
        while bunch := inbox.take(_BUNCH):
            for event in bunch:
                self._take(event)

    async def _tick(self, seconds: float | None) -> None:
        until: float | None = None
        while until is None or time.monotonic() < until:
            await asyncio.sleep(1.0 if until is None else min(1.0, max(0.0, until - time.monotonic())))
            self._diagnose()
            self._out.flush()
            if seconds is not None and until is None and self._state.expected_to_report <= self._state.reporting:
                until = time.monotonic() + seconds

    def _take(self, event: Event) -> None:
        self._state.fold(event)
        match event:
            case FrameArrived(_, task, frame):
                self.collected += 1
                self._write(frame_to_json(str(task), frame))
            case LinkChanged() | AgentDescribed():
                self._write(_event_to_json(event))

    def _diagnose(self) -> None:
        for diagnosis in self._state.snapshot(time.time()).changes:
            self._write(diagnosis_to_json(diagnosis))

    def _write(self, document: Json) -> None:
        self._out.write(json.dumps(document, separators=(",", ":"), allow_nan=False, ensure_ascii=False) + "\n")


async def _end(jobs: list[asyncio.Task[Any]]) -> None:
    for job in jobs:
        job.cancel()
    for outcome in await asyncio.gather(*jobs, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome


def _header(spec: ClusterSpec) -> Json:
    return {
        "type": "header",
        "schema": SCHEMA_VERSION,
        "version": installed_version(),
        "time": time.time(),
        "run": spec.name,
        "lead": str(spec.lead),
        "tasks": [str(task) for task in spec.tasks],
        "cluster": json.loads(spec.to_json()),
    }


def _event_to_json(event: LinkChanged | AgentDescribed) -> Json:
    if isinstance(event, LinkChanged):
        rest: Json = {"type": "link", "state": event.state.value, "reason": event.reason}
    else:
        rest = {"type": "agent", **encode(event.description)}
    return {"schema": SCHEMA_VERSION, "time": event.at, **rest, "task": str(event.task)}


def installed_version() -> str | None:
    """The version of tfscale; None where it runs from a tree that was not installed."""
    read: Callable[[str], str] = importlib.metadata.version
    try:
        return read("tfscale")
    except importlib.metadata.PackageNotFoundError:
        return None
