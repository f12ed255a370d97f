import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import grpc.aio
import pytest
from certificates import Issuer, authority
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from tfscale.core.access.caller_role import CallerRole
from tfscale.core.access.certificate import SecurityError
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec, Tls
from tfscale.core.cluster.security import certificates_of, open_channel, uses_tls
from tfscale.core.cluster.task import Task

TASK = Task.parse("worker:0")
LOOPBACK, BEYOND = Address("127.0.0.1", 7070), Address("10.0.0.2", 7070)
PLAIN = ClusterSpec("test", {TASK: LOOPBACK}, {TASK: LOOPBACK})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pki")


@pytest.fixture(scope="module")
def own(folder: Path) -> Tls:
    return authority(folder, "own")


@asynccontextmanager
async def served(spec: ClusterSpec, insecure: bool = False) -> AsyncIterator[Address]:
    """Serve as an agent does, and yield the address."""
    certificates = certificates_of(spec, insecure)
    server = grpc.aio.server()
    health_pb2_grpc.add_HealthServicer_to_server(HealthServicer(), server)
    local = "127.0.0.1:0"
    port = (
        server.add_insecure_port(local)
        if certificates is None
        else server.add_secure_port(local, certificates.server_credentials())
    )
    await server.start()
    yield Address("127.0.0.1", port)
    await server.stop(0)


@pytest.fixture
async def address(own: Tls) -> AsyncIterator[Address]:
    """Yield the address of a server that asks for certificates of its own authority."""
    async with served(replace(PLAIN, tls=own)) as address:
        yield address


async def check(address: Address, spec: ClusterSpec, insecure: bool = False) -> int:
    async with open_channel(address, spec, insecure) as channel:
        return (await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=60)).status


@pytest.mark.parametrize(
    ("address", "tls", "insecure", "expected"),
    [
        (LOOPBACK, False, False, False),
        (LOOPBACK, True, False, True),
        (BEYOND, True, False, True),
        (BEYOND, False, True, False),
        (BEYOND, True, True, False),
    ],
)
def test_who_speaks_tls(address: Address, tls: bool, insecure: bool, expected: bool) -> None:
    files = Tls(Path("ca"), Path("certificate"), Path("key"))
    assert uses_tls(address, replace(PLAIN, tls=files if tls else None), insecure) is expected


def test_beyond_loopback_without_tls_both_ways_out_are_named() -> None:
    with pytest.raises(SecurityError, match=r"give \[tls\] in the cluster file, or --insecure"):
        open_channel(BEYOND, PLAIN)


async def test_both_sides_of_one_authority_talk(address: Address, own: Tls) -> None:
    assert await check(address, replace(PLAIN, tls=own)) == health_pb2.HealthCheckResponse.SERVING


async def test_both_sides_with_insecure_talk_in_plain_text_whatever_the_file_says(own: Tls) -> None:
    spec = replace(PLAIN, tls=own)
    async with served(spec, insecure=True) as address:
        assert await check(address, spec, insecure=True) == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError):
            await check(address, spec)


async def test_strangers_are_refused(address: Address, folder: Path) -> None:
    with pytest.raises(grpc.aio.AioRpcError):
        await check(address, replace(PLAIN, tls=authority(folder, "other")))
    with pytest.raises(grpc.aio.AioRpcError):
        await check(address, PLAIN)


def test_a_file_that_is_no_certificate_is_named(own: Tls, tmp_path: Path) -> None:
    with pytest.raises(SecurityError, match=r"\[tls\] key: .*none.pem cannot be read"):
        certificates_of(replace(PLAIN, tls=replace(own, key=tmp_path / "none.pem")), False)
    (tmp_path / "text.pem").write_text("hello")
    with pytest.raises(SecurityError, match=r"\[tls\] ca: .*text.pem is not a PEM file"):
        open_channel(LOOPBACK, replace(PLAIN, tls=replace(own, ca=tmp_path / "text.pem")))


async def test_a_new_certificate_is_shown_to_the_next_caller(folder: Path) -> None:
    issuer = Issuer(folder / "renewed")
    kept = certificates_of(replace(PLAIN, tls=issuer.tls("agent", days=1)), False)
    assert kept is not None and not kept.refresh()
    server = grpc.aio.server()
    port = server.add_secure_port("127.0.0.1:0", kept.server_credentials())
    await server.start()
    before = await _shown(port)
    issuer.tls("agent", days=30)
    assert kept.refresh() and kept.version == 1
    assert await _shown(port) != before
    await server.stop(0)


async def _shown(port: int) -> str:
    return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))


def test_a_new_certificate_that_is_wrong_is_told_once_and_not_taken(folder: Path) -> None:
    issuer = Issuer(folder / "wrong")
    tls = issuer.tls("agent")
    kept = certificates_of(replace(PLAIN, tls=tls), False, is_agent=True)
    assert kept is not None
    end = kept.facts.end
    for wrong, why in (
        (lambda: tls.key.write_bytes(authority(folder, "stranger").key.read_bytes()), "is not the key of"),
        (lambda: issuer.tls("agent", begins=timedelta(days=-3), days=1), "expired on"),
        (lambda: issuer.tls("agent", CallerRole.OPERATOR), "tfscale:agent is needed"),
    ):
        wrong()
        with pytest.raises(SecurityError, match=why):
            kept.refresh()
        assert not kept.refresh() and kept.facts.end == end
    issuer.tls("agent", days=9)
    assert kept.refresh() and kept.facts.end > end


def test_an_agent_needs_a_certificate_of_an_agent_unless_roles_are_off(folder: Path) -> None:
    tls = Issuer(folder / "people").tls("ann", CallerRole.OPERATOR)
    with pytest.raises(SecurityError, match=r'tfscale:agent is needed: .* roles = "off" in \[tls\]'):
        certificates_of(replace(PLAIN, tls=tls), False, is_agent=True)
    assert certificates_of(replace(PLAIN, tls=replace(tls, has_roles=False)), False, is_agent=True) is not None
    assert certificates_of(replace(PLAIN, tls=tls), False) is not None
