"""Channels to the agents: one a task, made when first needed, encrypted beyond this host unless told otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from tfscale.console.printable import printable
from tfscale.core.cluster import ClusterSpec, Tls
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.task import Task
from tfscale.v1 import agent_pb2
from tfscale.v1.agent_pb2_grpc import AgentStub

if TYPE_CHECKING:
    from tfscale.v1.agent_pb2_grpc import AgentAsyncStub

_WATCH = f"/{agent_pb2.DESCRIPTOR.services_by_name['Agent'].full_name}/Watch"
_OPTIONS = (
    # Agents are named by address; a proxy meant for the web would only stand in between.
    ("grpc.enable_http_proxy", 0),
    # Measuring the bandwidth takes a ping a frame, a quarter of what reading a thousand agents costs. Without it, so
    # much may be under way at once: the past of an agent over a long line.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 1 << 20),
    # Whatever ends is tried again here, and statistics are asked by nobody: a hundredth of a megabyte a channel.
    ("grpc.enable_retries", 0),
    ("grpc.enable_channelz", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 800),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
)


class InsecureError(UsageError):
    """An agent is beyond this host and nothing encrypts the way there."""


class CommandError(TfscaleError):
    """An agent did not do what it was asked to; the message says why and what to do."""


class Channels:
    """One channel an agent, shared by the stream and the commands.

    Raises InsecureError where an agent is not on loopback, the cluster has no TLS and `insecure` was not given.
    """

    def __init__(self, spec: ClusterSpec, *, insecure: bool = False) -> None:
        self.spec = spec
        self._credentials = _credentials(spec.tls) if spec.tls else None
        self._channels: dict[Task, grpc.aio.Channel] = {}
        self._stubs: dict[Task, AgentAsyncStub] = {}
        if not insecure and spec.tls is None:
            _refuse_open_network(spec)

    def stub(self, task: Task) -> AgentAsyncStub:
        """What to call the task's agent with. Must be used in one event loop."""
        if task not in self._stubs:
            self._channels[task] = self._open(str(self.spec.agents[task]))
            self._stubs[task] = AgentStub(self._channels[task])
        return self._stubs[task]

    def watch(self, task: Task, request: agent_pb2.WatchRequest) -> grpc.aio.UnaryStreamCall[Any, bytes]:
        """The stream of the task's agent, its replies as the bytes that they are."""
        self.stub(task)
        serialize = agent_pb2.WatchRequest.SerializeToString
        call: grpc.aio.UnaryStreamCall[Any, bytes]
        call = self._channels[task].unary_stream(_WATCH, request_serializer=serialize)(request)
        return call

    def _open(self, address: str) -> grpc.aio.Channel:
        if self._credentials is None:
            return grpc.aio.insecure_channel(address, options=_OPTIONS)
        return grpc.aio.secure_channel(address, self._credentials, options=_OPTIONS)

    async def close(self) -> None:
        """End all calls and connections."""
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()
        self._stubs.clear()


def first_line(error: grpc.aio.AioRpcError) -> str:
    """What went wrong in a call, in a few words."""
    details = (error.details() or "").strip()
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        return "connection refused" if "refused" in details.lower() else "does not answer"
    return printable(details.splitlines()[0]) if details else error.code().name.lower().replace("_", " ")


def _refuse_open_network(spec: ClusterSpec) -> None:
    for task, address in spec.agents.items():
        if not address.is_loopback:
            raise InsecureError(
                f"the agent of {task} at {address} is not on this host: add [tls] to the cluster file, or --insecure"
            )


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    ca, key, certificate = (_read(path) for path in (tls.ca, tls.key, tls.certificate))
    return grpc.ssl_channel_credentials(ca, key, certificate)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"[tls] {path}: cannot be read: {error.strerror}") from None
