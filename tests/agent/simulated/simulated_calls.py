"""Calls of gRPC over a simulated network: the agents' stubs, gatekeeper and services, without sockets.

A message comes late or never; a call that breaks does so after the time that gRPC's keepalive takes, or at once where
the other host says that nobody listens. Requests that agents repeat may arrive twice.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
from simulated.host_lives import LIFE, TRUE, Life
from tfscale.agent.serving.agent_server import Served, ServerError
from tfscale.agent.serving.callers import Callers
from tfscale.agent.serving.gatekeeper import Gatekeeper
from tfscale.agent.settings import AgentSettings

_LATE, _BROKEN, _TWICE = 0.01, 0.01, 0.02
"""Shares of messages and calls while faults happen."""
_NEXT = 1e-6
"""Seconds between two messages of a stream at least."""
_LOOK = 0.5
"""Seconds between two looks of a call at its other side."""
_REFUSED, _KEEPALIVE = 1.0, 10.0
"""Seconds after which a call ends whose server is gone, where its host says so and where it is silent."""
_CONNECT = 20.0
"""Seconds for a connection to a host that does not answer."""
_AGAIN = 1.0
"""Seconds between two tries to connect."""
_GRACE = 0.5
"""Seconds for calls under way when a server stops."""
_REPEATED = ("Apply", "Place", "ReportFailure", "Prepare", "Accept", "Look", "Introduce")
"""Calls that an agent may repeat."""


class Network:
    """Network between hosts, and the servers on it."""

    def __init__(self, random: Random, note: Callable[[str], None]) -> None:
        self.random, self.note = random, note
        self.cut: set[frozenset[str]] = set()
        """Pairs of hosts that do not reach one another."""
        self.down: set[str] = set()
        """Hosts that are off."""
        self.is_well = False
        self.servers: dict[str, Server] = {}

    def reaches(self, source: str, target: str) -> bool:
        """Decide whether a message can come from one host to another now."""
        return frozenset((source, target)) not in self.cut and self.down.isdisjoint((source, target))

    def send(self, source: str, target: str, arrive: Callable[[], object], not_before: float = 0.0) -> float | None:
        """Have a message arrive later, not before a time; return when it does, None where it never does."""
        loop = asyncio.get_running_loop()
        is_late = not self.is_well and self.random.random() < _LATE
        at = max(not_before + _NEXT, loop.time() + self.random.uniform(0.0005, 3.0 if is_late else 0.02))
        life = LIFE.get()
        is_sent = self.reaches(source, target) and (life is None or life.is_alive)
        if not is_sent or (not self.is_well and self.random.random() < _BROKEN):
            return None
        TRUE.run(loop.call_at, at, lambda: self.reaches(source, target) and arrive())
        return at

    def leave(self, life: Life) -> None:
        """End the servers of a process that was killed: its kernel tells the callers, if its host is there."""
        for address, server in tuple(self.servers.items()):
            if server.life is life:
                del self.servers[address]
                server.is_serving = False


class Server:
    """Server of one agent, in the place of `AgentServer`."""

    network: Network

    def __init__(self, settings: AgentSettings, service: Served, _certificates: Any, token: str, _audit: Path) -> None:
        life = LIFE.get()
        assert life is not None
        self.life, self.is_serving, self._address = life, False, str(settings.listen)
        self._gatekeeper = Gatekeeper(service.identity, Callers(settings, token), _NoAudit())  # type: ignore[arg-type]
        self._handlers: dict[str, Any] = {}
        self.calls: dict[asyncio.Task[None], None] = {}
        service.add_to(self)  # type: ignore[arg-type]
        if self._address in self.network.servers:
            raise ServerError(f"cannot listen on {self._address}")
        self.network.servers[self._address] = self

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        """Take the handlers that a generated module adds to a server."""
        self._handlers |= {f"/{service}/{name}": handler for name, handler in handlers.items()}

    def add_generic_rpc_handlers(self, _handlers: Iterable[Any]) -> None:
        """Do nothing: they are the same handlers."""

    async def start(self) -> None:
        self.is_serving = True

    async def stop(self) -> None:
        self.is_serving = False
        if self.network.servers.get(self._address) is self:
            del self.network.servers[self._address]
        if self.calls:
            await asyncio.wait([*self.calls], timeout=_GRACE)
        for task in tuple(self.calls):
            task.cancel()

    def answer(self, call: Call) -> None:
        """Begin to answer a call."""
        if not self.is_serving or not self.life.is_alive:
            return
        task = self.life.start(self._answer(call))
        self.calls[task] = None
        task.add_done_callback(self.calls.pop)
        call.served.append(task)

    async def _answer(self, call: Call) -> None:
        answer = _Answer(self, call)
        try:
            handler = await self._gatekeeper.intercept_service(self._find, SimpleNamespace(method=call.path))  # type: ignore[arg-type]
            if handler is None:
                return answer.end(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
            answer.serialize = handler.response_serializer
            if handler.response_streaming:
                await handler.unary_stream(call.request, answer)
            else:
                await answer.write(await handler.unary_unary(call.request, answer))
            answer.end(grpc.StatusCode.OK, "")
        except _Aborted as aborted:
            answer.end(*aborted.args)
        except asyncio.CancelledError:
            answer.end(grpc.StatusCode.CANCELLED, "the server stops")
            raise
        except Exception as error:
            self.network.note(f"{call.path} of {self.life.host} raised {error!r}")
            answer.end(grpc.StatusCode.UNKNOWN, repr(error))

    async def _find(self, details: Any) -> Any:
        return self._handlers.get(details.method)


class _NoAudit:
    def begin(self, *_: object) -> _NoAudit:
        return self

    def write(self, _result: str) -> None:
        pass


class _Aborted(Exception):
    pass


class _Answer:
    """Context of a call in its service, as far as the services use it."""

    def __init__(self, server: Server, call: Call) -> None:
        self._server, self._call = server, call
        self.serialize: Callable[[Any], bytes] | None = None
        self._last: float | None = 0.0
        """Time at which the last message arrives; None once one was lost, after which none does."""

    def peer(self) -> str:
        return f"ipv4:{self._call.source}:0"

    def time_remaining(self) -> float | None:
        return None if self._call.deadline is None else self._call.deadline - asyncio.get_running_loop().time()

    async def write(self, reply: Any) -> None:
        data = reply if self.serialize is None else self.serialize(reply)
        self._send(lambda: self._call.arrived.put_nowait(data))

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        raise _Aborted(code, details)

    def end(self, code: grpc.StatusCode, details: str) -> None:
        self._send(lambda: self._call.arrived.put_nowait((code, details)))

    def _send(self, arrive: Callable[[], object]) -> None:
        if self._last is not None:
            host = self._server.life.host
            self._last = self._server.network.send(host, self._call.source, arrive, self._last)


class Channel:
    """Channel to the agent at an address, in the place of gRPC's."""

    def __init__(self, network: Network, source: str, address: str) -> None:
        self.network, self.source, self.address = network, source, address
        self.calls: dict[Call, None] = {}

    def unary_unary(
        self, path: str, request_serializer: Any, response_deserializer: Any, _registered_method: bool = False
    ) -> Callable[..., UnaryCall]:
        return lambda request, timeout=None, wait_for_ready=False: UnaryCall(
            self, path, request_serializer(request), response_deserializer, timeout, wait_for_ready
        )

    def unary_stream(
        self, path: str, request_serializer: Any, response_deserializer: Any, _registered_method: bool = False
    ) -> Callable[..., StreamCall]:
        return lambda request, timeout=None, wait_for_ready=False: StreamCall(
            self, path, request_serializer(request), response_deserializer, timeout, wait_for_ready
        )

    async def close(self) -> None:
        for call in tuple(self.calls):
            call.cancel()

    async def __aenter__(self) -> Channel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Call:
    """Call under way, on the caller's side."""

    def __init__(
        self,
        channel: Channel,
        path: str,
        request: bytes,
        read: Callable[[bytes], Any],
        timeout: float | None,
        waits: bool,
    ) -> None:
        self.path, self.request, self.source = path, request, channel.source
        self._channel, self._network, self._read, self._waits = channel, channel.network, read, waits
        loop = asyncio.get_running_loop()
        self.deadline = None if timeout is None else loop.time() + timeout
        self.arrived: asyncio.Queue[Any] = asyncio.Queue()
        self.served: list[asyncio.Task[None]] = []
        """Tasks that answer it."""
        channel.calls[self] = None

    @property
    def _target(self) -> str:
        return self._channel.address.rpartition(":")[0]

    def cancel(self) -> None:
        raise NotImplementedError

    async def replies(self) -> AsyncIterator[Any]:
        """Yield each reply. Raises AioRpcError."""
        try:
            async with asyncio.timeout_at(self.deadline):
                server = await self._connected()
                self._send(server)
                while not isinstance(came := await self._next(server), tuple):
                    yield self._read(came)
            if came[0] is not grpc.StatusCode.OK:
                raise _error(*came)
        except TimeoutError:
            raise _error(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded") from None
        finally:
            self._channel.calls.pop(self, None)
            for task in self.served:
                self._network.send(self.source, self._target, task.cancel)

    async def _connected(self) -> Server:
        network, loop = self._network, asyncio.get_running_loop()
        since = loop.time()
        while True:
            is_reached = network.reaches(self.source, self._target)
            server = network.servers.get(self._channel.address)
            if is_reached and server is not None and server.is_serving:
                return server
            if not self._waits and (is_reached or loop.time() - since > _CONNECT):
                raise _error(grpc.StatusCode.UNAVAILABLE, "Connection refused")
            await asyncio.sleep(_AGAIN)

    def _send(self, server: Server) -> None:
        is_doubled = self.path.rpartition("/")[2] in _REPEATED and not self._network.is_well
        for _ in range(1 + (is_doubled and self._network.random.random() < _TWICE)):
            self._network.send(self.source, self._target, lambda: server.answer(self))

    async def _next(self, server: Server) -> Any:
        misses = 0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    return await self.arrived.get()
            is_reached = self._network.reaches(self.source, self._target)
            is_open = is_reached and any(not task.done() for task in self.served)
            misses = 0 if is_open else misses + 1
            if misses * _LOOK >= (_REFUSED if is_reached and not server.is_serving else _KEEPALIVE):
                return grpc.StatusCode.UNAVAILABLE, "Connection refused"


class UnaryCall(Call):
    """Call with one reply."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._task = asyncio.get_running_loop().create_task(self._reply())
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _reply(self) -> Any:
        reply = None
        async for each in self.replies():
            reply = each if reply is None else reply
        return reply

    def cancel(self) -> None:
        self._task.cancel()

    def __await__(self) -> Generator[Any, None, Any]:
        return self._task.__await__()


class StreamCall(Call):
    """Call with a stream of replies."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._came: asyncio.Queue[Any] = asyncio.Queue()
        self._task = asyncio.get_running_loop().create_task(self._read_all())

    async def _read_all(self) -> None:
        end: BaseException | None = None
        try:
            async for each in self.replies():
                self._came.put_nowait(each)
        except (grpc.aio.AioRpcError, asyncio.CancelledError) as error:
            end = error
        self._came.put_nowait((end,))

    def cancel(self) -> None:
        self._task.cancel()

    async def __aiter__(self) -> AsyncIterator[Any]:
        while not isinstance(came := await self._came.get(), tuple):
            yield came
        if came[0] is not None:
            raise came[0]


def _error(code: grpc.StatusCode, details: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)
