"""Ways to the agents: each is dialled, and where that fails, reached through an agent that this console can dial."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import socket
import tempfile
import time
from collections.abc import Collection

from tfscale.console.transport.relay import Relay, RelayError, RelaySocket
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.security import ChannelOpener, RenewedChannel

_logger = logging.getLogger(__name__)
_PATIENCE = 0.7
"""Seconds in which an agent must be connected to, or else it is relayed (chosen): twice the way around the world."""
_AGAIN = 5.0
"""Seconds until an agent that could not be connected to is tried again before a relay is asked."""
_LOOKED_FOR = 2.0, 20
"""Least seconds between two searches for a way to an agent, and most searches a second for all: relays train."""
_MOST_TRIED = 4
"""Most relays that are asked for one agent."""
_AT_ONCE = 32
"""Most agents that relays are asked for at a time."""
_BEGIN = 3.0
"""Seconds in which all agents have been dialled first."""


class Ways:
    """Way to each agent by its address.

    `entry` is the address that the operator has named, which may be a forwarded port: then a way is searched for before
    an agent is dialled; else only when it could not be dialled, and another could.
    """

    def __init__(
        self, opener: ChannelOpener, agents: Collection[Address], fingerprint: str, entry: Address | None
    ) -> None:
        self._opener, self._fingerprint, self._entry = opener, fingerprint, entry
        self._is_forwarded = entry is not None and entry.plain not in {address.plain for address in agents}
        """True where no agent has the named address: loopback addresses of the cluster are another machine's then."""
        self._pause = max(_LOOKED_FOR[0], len(agents) / _LOOKED_FOR[1])
        self._undecided = set(agents)
        """Addresses that have neither answered nor failed yet."""
        self._begin = time.monotonic()
        self._dialled: dict[Address, str] = {}
        """Names of the agents that were dialled and answer, by address."""
        self._preferred = entry
        """Address of the relay that was of use last."""
        self._relays: dict[Address, Relay] = {}
        self._channels: list[RenewedChannel] = []
        self._through: dict[Address, Relay] = {}
        self._sockets: dict[Address, RelaySocket] = {}
        self._lost: set[Address] = set()
        self._vain: dict[Address, float] = {}
        """Monotonic time until which no way to an agent is searched for."""
        self._refused: dict[Address, float] = {}
        """Monotonic time until which an agent counts as one that cannot be connected to."""
        self._problems: dict[Address, str] = {}
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self._naming: asyncio.Task[None] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def socket(self, address: Address) -> str:
        """Return the path of the socket that leads to an agent; empty where it is dialled."""
        return self._sockets[address].path if address in self._through else ""

    def words(self, address: Address) -> str:
        """Return how an agent is reached that is not dialled, in words."""
        return f"through {self._through[address].name}" if address in self._through else ""

    def problem(self, address: Address) -> str:
        """Return why the agent that the operator has named leads to no other; empty where it does, or names none."""
        return self._problems.get(address, "")

    def heard(self, address: Address, name: str) -> None:
        """Note that the agent of this name answers."""
        self._undecided.discard(address)
        if address not in self._through:
            self._dialled[address] = name

    def lost(self, address: Address, *, is_stranger: bool = False) -> None:
        """Note that an agent does not answer, or that the one at its address is of another cluster."""
        self._undecided.discard(address)
        self._dialled.pop(address, None)
        was_relayed = self._through.pop(address, None) is not None
        self._lost.add(address)
        if is_stranger and was_relayed:
            # Whichever way it is reached, that is who answers there.
            self._vain[address] = time.monotonic() + _AGAIN
        elif is_stranger:
            self._vain.pop(address, None)
            self._refused[address] = time.monotonic() + _AGAIN

    def may_find(self, address: Address) -> bool:
        """Decide whether a way to an agent that could not be dialled may be found in a moment."""
        is_begin = bool(self._undecided) and time.monotonic() < self._begin + _BEGIN
        return is_begin or (self._is_worth_it(address) and bool(self._willing()))

    async def find(self, address: Address) -> None:
        """Find the way to an agent, if it is not known. It may take seconds."""
        if address in self._through or not self._is_worth_it(address) or not self._willing():
            return
        self._vain[address] = time.monotonic() + self._pause
        if await self._connects(address):
            self._lost.discard(address)
            return
        async with self._limit:
            await self._name_entry()
            for relay in self._willing():
                try:
                    await relay.try_out(address)
                    await self._lead(address, relay)
                    return
                except RelayError as error:
                    if self._entry is not None:
                        self._problems[address] = str(error)
                    if not error.is_its_own:
                        break

    async def close(self) -> None:
        for each in self._sockets.values():
            await each.close()
        for channel in self._channels:
            await channel.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _is_worth_it(self, address: Address) -> bool:
        is_dialled = address == self._entry or (self._entry is None and address not in self._lost)
        return hasattr(socket, "AF_UNIX") and not is_dialled and self._vain.get(address, 0.0) <= time.monotonic()

    def _willing(self) -> list[Relay]:
        """Return the relays to ask, the best first."""
        preferred = [self._preferred] if self._preferred in self._dialled else []
        named = [] if self._entry is None else [self._entry]
        asked = dict.fromkeys([*preferred, *named, *itertools.islice(self._dialled, _MOST_TRIED)])
        relays = [self._relay(address) for address in asked if address is not None]
        return [relay for relay in relays if self._entry is not None or not relay.refusal]

    def _relay(self, address: Address) -> Relay:
        if address not in self._relays:
            channel = RenewedChannel(self._opener, address)
            self._channels.append(channel)
            name = self._dialled.get(address, str(address))
            self._relays[address] = Relay(name, channel, self._fingerprint)
        return self._relays[address]

    async def _connects(self, address: Address) -> bool:
        """Decide whether an agent can be dialled."""
        if self._refused.get(address, 0.0) > time.monotonic() or (self._is_forwarded and address.is_loopback):
            return False
        try:
            async with asyncio.timeout(_PATIENCE):
                _, writer = await asyncio.open_connection(address.host, address.port)
        except OSError:  # also of an unknown name, and of no answer in time
            self._refused[address] = time.monotonic() + _AGAIN
            return False
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return True

    async def _name_entry(self) -> None:
        if self._entry is not None:
            self._naming = self._naming or asyncio.create_task(self._opener.learn_name(self._entry))
            await asyncio.shield(self._naming)

    async def _lead(self, address: Address, relay: Relay) -> None:
        """Have the socket of an agent lead through a relay."""
        if address not in self._sockets:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="tfscale-", dir=_short_folder())
            path = f"{self._folder.name}/{len(self._sockets)}"
            self._sockets[address] = RelaySocket(path, address, lambda: self._through.get(address, relay))
            await self._sockets[address].open()
        _logger.debug("the agent at %s is reached through %s", address, relay.name)
        self._through[address] = relay
        self._preferred = next(key for key, each in self._relays.items() if each is relay)
        self._problems.pop(address, None)
        self._vain.pop(address, None)
        self._lost.discard(address)


def _short_folder() -> str | None:
    """Return a folder for sockets, whose paths have at most 107 bytes; None for the usual one."""
    return "/tmp" if len(tempfile.gettempdir()) > 60 else None
