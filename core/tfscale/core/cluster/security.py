"""Rule by which consoles and agents trust each other, and the settings of gRPC's channels for it.

Every side decides by the same rule, `uses_tls`: `--insecure` means plain text; else `[tls]` in the cluster file means
mutual TLS on every address; with neither, only loopback addresses are served and dialled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import grpc
import grpc.aio
from tfscale.core.access.caller_role import CallerRole
from tfscale.core.access.certificate import SecurityError
from tfscale.core.access.kept_certificates import KeptCertificates
from tfscale.core.access.tls_fault import certified_name
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec, Tls
from tfscale.core.cluster.local.agent_token import token_senders

_EVERY_CHANNEL = (
    # Agents are named by address; a proxy that is meant for the web would only stand in between.
    ("grpc.enable_http_proxy", 0),
    # A snapshot holds a minute of steps.
    ("grpc.max_receive_message_length", 64 << 20),
)

_AGENTS_CHANNEL = (
    # A restarted agent is reached again within two seconds.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.use_local_subchannel_pool", 1),
)

_KEEPALIVE = (
    # A host that vanished is noticed within ten seconds, while a call is under way.
    ("grpc.keepalive_time_ms", 5000),
    ("grpc.keepalive_timeout_ms", 5000),
)

SERVER_OPTIONS = (
    # A port that is in use is an error.
    ("grpc.so_reuseport", 0),
    # The channels' keepalive is allowed.
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
    # Who connects and says nothing is sent away after so many milliseconds; gRPC would wait two minutes.
    ("grpc.server_handshake_timeout_ms", 10_000),
)


def uses_tls(address: Address, spec: ClusterSpec, insecure: bool) -> bool:
    """Decide whether an agent is served and dialled at `address` with TLS.

    Raises SecurityError where neither TLS nor plain text is allowed.
    """
    if insecure:
        return False
    if spec.tls is not None:
        return True
    if not address.is_loopback:
        raise SecurityError(
            f"{address} is not a loopback address: give [tls] in the cluster file, or --insecure to go without "
            "encryption"
        )
    return False


def certificates_of(spec: ClusterSpec, insecure: bool, *, is_agent: bool = False) -> KeptCertificates | None:
    """Return this side's certificate, None where it speaks plain text. Raises SecurityError if it cannot be used."""
    if insecure or spec.tls is None:
        return None
    return KeptCertificates(spec.tls, CallerRole.AGENT if is_agent and spec.tls.has_roles else None)


class ChannelOpener:
    """Opener of channels to agents, with this side's newest certificate.

    To an agent on loopback that is reached in plain text it sends that agent's token, with the calls that need it.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        insecure: bool,
        certificates: KeptCertificates | None,
        options: Sequence[tuple[str, int | str]] = _AGENTS_CHANNEL,
    ) -> None:
        self.certificates = certificates
        self._spec, self._insecure = spec, insecure
        self._options: list[tuple[str, int | str]] = [*_EVERY_CHANNEL, *options]
        self._credentials: tuple[int, grpc.ChannelCredentials] | None = None
        self.names: dict[Address, str] = {}
        """Name in the certificate of the agent that a forwarded port leads to, by the port's address."""

    @property
    def tls(self) -> Tls | None:
        """Files of the certificate, None where agents are dialled in plain text."""
        return None if self.certificates is None else self.certificates.tls

    @property
    def version(self) -> int:
        """Number that rises when the certificate is replaced: a channel of an older version has an old certificate."""
        return 0 if self.certificates is None else self.certificates.version

    def open(self, address: Address, *, is_stream: bool = False, socket: str = "") -> grpc.aio.Channel:
        """Open a channel; the calls of a host that is gone fail.

        A channel that carries only a task's stream costs less: it sends no token, and whoever reads it notices silence.
        `socket` is the path of a Unix socket that leads to the agent of this address: TLS still asks for that agent's
        name, and no token of this machine is sent. Raises SecurityError where the address may not be dialled.
        """
        target = f"unix:{socket}" if socket else str(address)
        options = self._options if is_stream else [*self._options, *_KEEPALIVE]
        if uses_tls(address, self._spec, self._insecure) and self.certificates is not None:
            if name := self.names.get(address, address.host if socket else ""):
                options = [*options, ("grpc.ssl_target_name_override", name)]
            return grpc.aio.secure_channel(target, self._kept(self.certificates), options=options)
        senders = token_senders(address) if address.is_loopback and not (is_stream or socket) else None
        return grpc.aio.insecure_channel(target, options=options, interceptors=senders)

    async def learn_name(self, address: Address) -> None:
        """Have the agent behind a forwarded port called by the name in its certificate, if that is of the authority.

        A port of this machine says nothing of who answers there.
        """
        if self.certificates is not None and address.is_loopback:
            tls = self.certificates.tls
            if name := await asyncio.to_thread(certified_name, address, tls):
                self.names[address] = name

    def _kept(self, certificates: KeptCertificates) -> grpc.ChannelCredentials:
        """Return the credentials of the newest certificate: one object for a thousand channels."""
        if self._credentials is None or self._credentials[0] != certificates.version:
            self._credentials = (certificates.version, certificates.channel_credentials())
        return self._credentials[1]


class RenewedChannel:
    """Channel to one agent, opened when it is first used, and anew once this side has another certificate."""

    def __init__(self, opener: ChannelOpener, address: Address) -> None:
        self._opener, self._address = opener, address
        self._channels: dict[int, grpc.aio.Channel] = {}
        """Channels by the version of the certificate that they show; calls under way go on over older ones."""

    @property
    def is_open(self) -> bool:
        return bool(self._channels)

    def opened(self) -> grpc.aio.Channel:
        """Return the channel that shows the newest certificate. Raises SecurityError as ChannelOpener.open does."""
        version = self._opener.version
        if version not in self._channels:
            self._channels[version] = self._opener.open(self._address)
        return self._channels[version]

    async def close(self) -> None:
        """End all calls."""
        for channel in self._channels.values():
            await channel.close()


def channel_opener(spec: ClusterSpec, insecure: bool, options: Sequence[tuple[str, int]]) -> ChannelOpener:
    """Return the opener of a console's channels. Raises SecurityError where any agent may not be dialled."""
    for address in spec.agents.values():
        uses_tls(address, spec, insecure)
    return ChannelOpener(spec, insecure, certificates_of(spec, insecure), options)


def open_channel(address: Address, spec: ClusterSpec, insecure: bool = False) -> grpc.aio.Channel:
    """Open one channel to an agent at `address`. Raises SecurityError."""
    return ChannelOpener(spec, insecure, certificates_of(spec, insecure)).open(address)
