"""Faults of TLS, each between a real server and a real client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import grpc
import grpc.aio
import pytest
from certificates import Issuer
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from loopback import free_addresses
from tfscale.core.access.caller_role import CallerRole
from tfscale.core.access.tls_fault import tls_fault
from tfscale.core.cluster.cluster_spec import Address, Tls, parse_address

YESTERDAY, TOMORROW = timedelta(days=-2), timedelta(days=1, hours=2)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("pki") / "own")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("pki") / "other")


@asynccontextmanager
async def served(tls: Tls | None) -> AsyncIterator[Address]:
    """Serve with these files as they are, right or wrong."""
    server = grpc.aio.server()
    health_pb2_grpc.add_HealthServicer_to_server(HealthServicer(), server)
    where = "127.0.0.1:0"
    if tls is None:
        port = server.add_insecure_port(where)
    else:
        pair = (tls.key.read_bytes(), tls.certificate.read_bytes())
        port = server.add_secure_port(where, grpc.ssl_server_credentials([pair], tls.ca.read_bytes(), True))
    await server.start()
    yield Address("127.0.0.1", port)
    await server.stop(0)


async def fault(serving: Tls | None, calling: Tls | None) -> str:
    async with served(serving) as address:
        return await asyncio.to_thread(tls_fault, address, calling)


async def test_two_that_trust_each_other_have_no_fault(own: Issuer) -> None:
    assert await fault(own.tls("agent"), own.tls("ann", CallerRole.OPERATOR, ())) == ""
    assert await fault(None, None) == ""


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda own: own.tls("old", begins=YESTERDAY, days=1), "its certificate has expired"),
        (lambda own: own.tls("early", begins=TOMORROW), "its certificate is not valid yet"),
        (lambda own: own.tls("far", hosts=["10.0.0.9"]), "its certificate names another host: make one for 127.0.0.1"),
        (lambda own: own.tls("eve", CallerRole.OBSERVER, ()), "its certificate is not made for an agent"),
    ],
)
async def test_a_fault_of_the_agents_certificate(own: Issuer, make: Callable[[Issuer], Tls], said: str) -> None:
    assert (await fault(make(own), own.tls("caller"))).startswith(said)


async def test_a_foreign_authority_is_told_by_both_sides(own: Issuer, other: Issuer) -> None:
    ours, theirs = own.tls("agent"), other.tls("agent")
    said = await fault(theirs, ours)
    assert said == f"its certificate is of another authority than {ours.ca}: give both one [tls] ca"
    said = await fault(ours, replace(theirs, ca=ours.ca))
    assert said.startswith(f"refuses this side's certificate: [tls] certificate: {theirs.certificate} is not of the")


async def test_an_agent_that_trusts_another_authority_ends_the_connection(own: Issuer, other: Issuer) -> None:
    serving = replace(own.tls("agent"), ca=other.tls("agent").ca)
    assert (await fault(serving, own.tls("caller"))).startswith("ends the connection as if it did not trust")


@pytest.mark.parametrize(
    ("begins", "said"), [(YESTERDAY, "expired on"), (TOMORROW, "is not valid before")], ids=["expired", "early"]
)
async def test_a_fault_of_the_own_certificate(own: Issuer, begins: timedelta, said: str) -> None:
    calling = own.tls("caller", begins=begins, days=1)
    assert f"refuses this side's certificate: [tls] certificate: {calling.certificate} {said}" in await fault(
        own.tls("agent"), calling
    )


async def test_one_side_without_tls(own: Issuer) -> None:
    assert (await fault(None, own.tls("agent"))).startswith("speaks plain text")
    assert (await fault(own.tls("agent"), None)).startswith("speaks TLS")


async def test_an_agent_that_is_not_there_or_says_nothing_has_no_fault_of_tls(own: Issuer, tmp_path: Path) -> None:
    nowhere = parse_address(next(free_addresses(1)))
    assert await asyncio.to_thread(tls_fault, nowhere, own.tls("agent")) == ""

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            await asyncio.sleep(60)

    server = await asyncio.start_server(silent, nowhere.host, nowhere.port)
    took = asyncio.get_running_loop().time()
    assert await asyncio.to_thread(tls_fault, nowhere, own.tls("agent"), 0.3) == ""
    assert asyncio.get_running_loop().time() - took < 30
    server.close()
    missing = replace(own.tls("agent"), ca=tmp_path / "none.pem")
    assert "none.pem has no certificate" in await fault(own.tls("agent"), missing)
