"""Connections that this agent relays for consoles: to the agents of its own cluster, and so many at a time."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tfscale.core.cluster.cluster_spec import Address, ClusterSpec, parse_address
from tfscale.core.errors import TfscaleError
from tfscale.core.text import bounded, plural
from tfscale.core.wire.tunnel import PIECE

MOST = 512
"""Connections at a time (chosen): two of a console for each of 256 tasks. All together hold some 40 MiB at most."""
IDLE = 60.0
"""Seconds without a byte after which a connection ends: a stream of frames has some each second."""
_PATIENCE = 2.0
"""Seconds for a connection."""
_MOST_NAME = 60


class Foreign(TfscaleError):
    """An address that is not that of an agent of this cluster."""


class Unreached(TfscaleError):
    """An agent that this host cannot connect to."""


class RelaysEnough(TfscaleError):
    """A connection more than this agent relays."""


class RelayedConnections:
    """Connections under way."""

    def __init__(self, spec: ClusterSpec) -> None:
        self._agents = {address.plain: address for address in (*spec.agents.values(), *spec.spares)}
        self.open = 0
        """Number of connections that are relayed at this moment."""

    @asynccontextmanager
    async def connected(self, address: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Connect to the agent at `address` for as long as the block lasts. Raises TfscaleError."""
        target = self._agents.get(parse_address(address).plain)
        if target is None:
            raise Foreign(f"no agent of this cluster is at {bounded(address, _MOST_NAME)}: nothing else is relayed")
        if self.open >= MOST:
            most = plural(MOST, "connection")
            raise RelaysEnough(f"this agent relays {most}, and no more: name another one with --agent")
        self.open += 1
        try:
            reader, writer = await _connect(target)
            try:
                yield reader, writer
            finally:
                writer.close()
        finally:
            self.open -= 1


async def _connect(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        async with asyncio.timeout(_PATIENCE):
            return await asyncio.open_connection(address.host, address.port, limit=PIECE)
    except TimeoutError:
        raise Unreached("does not answer") from None
    except socket.gaierror as error:
        raise Unreached(f"{address.host}: {error.strerror}") from None
    except OSError as error:
        raise Unreached(os.strerror(error.errno).lower() if error.errno else str(error)) from None
