"""Agents of other versions than the console's: what both know is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest
from loopback import free_addresses
from tfscale.console.engine.events import AgentDescribed, Event, FrameArrived, LinkChanged, LinkState
from tfscale.console.engine.inbox import Inbox
from tfscale.console.sources.agent_stream import Patience
from tfscale.console.sources.live import LiveSource
from tfscale.console.transport.channels import Channels
from tfscale.core.cluster.cluster_spec import ClusterSpec, parse_address
from tfscale.core.cluster.task import Task
from tfscale.core.records.probe_status import ProbeState
from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.core.records.task_status import TaskState
from tfscale.v1 import agent_pb2

OLDER = Path(__file__).parents[2] / "data" / "agent_of_2026-11-23.bin"
_LAST_STEP = 9
W0 = Task.parse("worker:0")
_UNKNOWN = b"\xa2\x38\x12" + b"of a later version"
"""Field 900, of bytes."""


def recorded() -> Iterator[bytes]:
    """Yield the WatchReply messages that an agent of version 0.1 sent on that day."""
    data = OLDER.read_bytes()
    while data:
        length, data = int.from_bytes(data[:4]), data[4:]
        yield data[:length]
        data = data[length:]


def with_unknown_fields(message: bytes) -> bytes:
    """Return a WatchReply of a later version: in itself, its description, each frame, and what frames hold."""
    reply = agent_pb2.WatchReply.FromString(message)
    frames = [*reply.snapshot.recent, *([reply.frame] if reply.HasField("frame") else [])]
    for frame in frames:
        parts = [getattr(frame, name) for name in ("status", "probe", "host") if frame.HasField(name)]
        for part in (*parts, *frame.steps, frame):
            part.MergeFromString(_UNKNOWN)
    if reply.HasField("snapshot"):
        reply.snapshot.description.MergeFromString(_UNKNOWN)
    return reply.SerializeToString() + _UNKNOWN


@asynccontextmanager
async def console_of(replies: list[bytes]) -> AsyncIterator[list[Event]]:
    """Yield what a console makes of an agent that sends these replies, and then nothing more."""

    async def watch(_request: bytes, _context: object) -> AsyncIterator[bytes]:
        for reply in replies:
            yield reply
        await asyncio.Event().wait()

    server = grpc.aio.server()
    handlers = {"Watch": grpc.unary_stream_rpc_method_handler(watch)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("tfscale.v1.Agent", handlers),))
    task, agent = map(parse_address, free_addresses(2))
    server.add_insecure_port(str(agent))
    await server.start()
    inbox, events = Inbox(), list[Event]()
    channels = Channels(ClusterSpec("test", {W0: task}, {W0: agent}))
    source = asyncio.create_task(LiveSource(channels, Patience(silence=30)).run(inbox))
    try:
        async with asyncio.timeout(60):
            while not any(map(_is_last, events)):
                await inbox.wait()
                events += inbox.take(100)
        yield events
    finally:
        source.cancel()
        await asyncio.wait([source])
        await channels.close()
        await server.stop(None)


def _is_last(event: Event) -> bool:
    """Return whether it is a refusal, or the frame in which the recording has its last step."""
    if isinstance(event, FrameArrived):
        return any(_LAST_STEP in batch.sequence for batch in event.frame.steps)
    return isinstance(event, LinkChanged) and event.state is LinkState.VERSION


@pytest.mark.parametrize("is_newer", [False, True])
async def test_what_both_know_is_read(is_newer: bool) -> None:
    replies = [with_unknown_fields(each) for each in recorded()] if is_newer else list(recorded())
    async with console_of(replies) as events:
        frames = [event.frame for event in events if isinstance(event, FrameArrived)]
        (described,) = [event.description for event in events if isinstance(event, AgentDescribed)]
    assert (described.task, described.run, described.fingerprint) == ("worker:0", "test", "")
    assert next(frame.status.state for frame in frames) is TaskState.PENDING
    assert frames[-1].status.state is TaskState.RUNNING
    assert frames[-1].probe is not None and frames[-1].probe.state is ProbeState.MEASURING
    steps = [number for frame in frames for batch in frame.steps for number in batch.sequence]
    assert steps == list(range(_LAST_STEP + 1))


async def test_a_schema_that_is_not_known_is_said_and_nothing_of_it_taken() -> None:
    newer = agent_pb2.WatchReply.FromString(next(recorded()))
    newer.schema_version = SCHEMA_VERSION + 1
    async with console_of([newer.SerializeToString()]) as events:
        assert not any(isinstance(event, FrameArrived) for event in events)
        (why,) = [event.reason for event in events if isinstance(event, LinkChanged) and event.reason]
    assert why == "speaks schema 2, this console 1: update the older"
