"""Stream to one watcher: a description, the past if requested, then each frame, and last words."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable

from tfscale.agent import wire
from tfscale.agent.process.steady_clock import steady_time
from tfscale.agent.telemetry.feed import Feed
from tfscale.core.cluster.placement.placement import Placement
from tfscale.core.records.frame import Description
from tfscale.v1 import agent_pb2


async def frame_stream(
    request: agent_pb2.WatchRequest,
    *,
    schema: int,
    feed: Feed,
    describe: Callable[[], Description],
    placement: Callable[[], Placement | None],
    clock: Callable[[], float] = time.time,
    steady: Callable[[], float] = steady_time,
) -> AsyncGenerator[agent_pb2.WatchReply | bytes, None]:
    """Yield the replies to a request in this schema, until the feed is closed."""
    now, steady_now = clock(), steady()
    since = request.since if request.HasField("since") else None
    pieces_since = steady_now - request.past if request.HasField("past") else None
    with feed.watch(since, pieces_since=pieces_since) as watcher:
        sent = placement()
        if pieces_since is not None:
            yield wire.past_beginning(schema, describe(), now, feed.milestones(watcher.begin))
            for piece in watcher.pieces():
                yield wire.past_reply(schema, piece, (now - steady_now) - (piece[-1].at - piece[-1].steady))
            yield wire.past_reply(schema, ())
        else:
            yield wire.snapshot_reply(schema, describe(), watcher.recent)
        async for frame in watcher:
            if placement() is not sent:  # a host was uncordoned: no task moves, and no stream ends
                sent = placement()
                yield wire.snapshot_reply(schema, describe(), ())
            yield wire.frame_reply(schema, frame)
        yield wire.farewell_reply(schema, feed.farewell)
