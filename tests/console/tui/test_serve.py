"""The screens in a browser: over HTTP and the websocket always, in a real browser where there is one."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest
from chromium.page_visit import visit
from loopback import free_addresses
from tfscale.console.tui.serve import is_welcome
from tfscale.core.cluster.cluster_spec import Address, parse_address

CONSOLE = [sys.executable, "-m", "tfscale.console.cli"]


class Served(NamedTuple):
    """Server of a simulated cluster's screens."""

    address: str
    url: str
    """Address with the token, as the server has printed it."""


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    where = next(free_addresses(1))
    server = await asyncio.create_subprocess_exec(
        *CONSOLE,
        *("--simulate", "3", "--fault", "worker:1=1.6x", "--serve", where),
        env=os.environ | {"XDG_CONFIG_HOME": "/nonexistent"},
        stderr=asyncio.subprocess.PIPE,
    )
    assert server.stderr is not None
    line = (await asyncio.wait_for(server.stderr.readline(), 30)).decode()
    url = re.search(rf"http://{where}/\?token=[\w-]{{40,}}", line)
    assert url is not None, line
    await _answers(where)
    yield Served(where, url[0])
    server.terminate()
    assert await asyncio.wait_for(server.wait(), 60) == 0


async def _answers(where: str) -> None:
    async with aiohttp.ClientSession() as session:
        for _ in range(100):
            try:
                async with session.get(f"http://{where}/"):
                    return
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.1)


async def drawn(websocket: aiohttp.ClientWebSocketResponse, wanted: str) -> str:
    """Return the text that the terminal was told to draw until these words came, without its colours."""
    seen = ""
    async with asyncio.timeout(60):
        async for message in websocket:
            seen += message.data.decode("utf-8", "replace") if message.type is aiohttp.WSMsgType.BINARY else ""
            if wanted in seen:
                return seen
    raise AssertionError(seen)


def browser() -> aiohttp.ClientSession:
    """Return a session that keeps cookies of IP addresses, too, as browsers do."""
    return aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))


async def test_a_page_draws_the_console_and_obeys_its_keys(served: Served) -> None:
    address = served.address
    async with browser() as session:
        async with session.get(f"{served.url}&fontsize=12") as page:
            text = await page.text()
            assert str(page.url) == f"http://{address}/?fontsize=12"
            assert page.status == 200 and f"ws://{address}/ws" in text and "<title>tfscale</title>" in text
            loaded = re.findall(r'(?:src|href)="([^"]+)"|url\("([^"]+)"\)', text)
            assert len(loaded) == 4 and all(
                url.startswith(("data:", f"http://{address}/static/")) for pair in loaded for url in pair if url
            )
            for url in (url for pair in loaded for url in pair if url.startswith("http")):
                async with session.get(url) as part:
                    assert part.status == 200
            assert "default-src 'self'" in page.headers["Content-Security-Policy"]
        async with session.ws_connect(f"ws://{address}/ws?width=120&height=40") as websocket:
            # The parts of a screen are drawn one by one.
            if "tfscale simulated" not in await drawn(websocket, "worker:2"):
                await drawn(websocket, "tfscale simulated")
            await websocket.send_str(json.dumps(["stdin", "?"]))
            await drawn(websocket, "On this page")
            await websocket.send_str(json.dumps(["resize", {"width": 80, "height": 24}]))
            await websocket.send_str(json.dumps(["stdin", "\x1b"]))
            await drawn(websocket, "worker:2")


async def test_a_page_of_a_billion_columns_takes_no_memory(served: Served) -> None:
    async with browser() as session:
        async with session.get(served.url):
            pass
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await session.ws_connect(f"ws://{served.address}/ws?width=999999999&height=40")
        assert caught.value.status == 400
        async with session.ws_connect(f"ws://{served.address}/ws?width=120&height=40") as websocket:
            await drawn(websocket, "worker:2")
            await websocket.send_str(json.dumps(["resize", {"width": 999_999_999, "height": 24}]))
            await websocket.send_str(json.dumps(["stdin", "?"]))
            await drawn(websocket, "On this page")


async def test_without_the_token_nothing_is_shown(served: Served) -> None:
    address, other = served.address, served.url[:-1] + ("A" if served.url[-1] != "A" else "B")
    async with browser() as session:
        for url in (
            f"http://{address}/",
            other,
            f"http://{address}/static/css/xterm.css",
            f"http://{address}/?token=é",
        ):
            async with session.get(url) as page:
                assert page.status == 403 and (await page.text()).startswith("no token: open the page by the URL")
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await session.ws_connect(f"ws://{address}/ws")
        assert caught.value.status == 403
        async with session.get(served.url, allow_redirects=False) as page:
            cookie = page.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and served.url.partition("=")[2] not in cookie


async def test_pages_of_others_do_not_get_at_it(served: Served) -> None:
    address = served.address
    async with browser() as session:
        await session.get(served.url)
        for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await session.ws_connect(f"ws://{address}/ws", headers=headers)
            assert caught.value.status == 403


@pytest.mark.parametrize(
    ("address", "host", "origin", "welcome"),
    [
        ("127.0.0.1:8571", "localhost:9000", "http://localhost:9000", True),
        ("127.0.0.1:8571", "127.0.0.1:8571", None, True),
        ("127.0.0.1:8571", "[::1]:8571", None, True),
        ("127.0.0.1:8571", "evil.example:8571", "http://evil.example:8571", False),
        ("127.0.0.1:8571", "localhost:8571", "http://localhost:8572", False),
        ("10.0.0.2:8571", "node-7:8571", "http://node-7:8571", True),
        ("10.0.0.2:8571", "node-7:8571", "null", False),
    ],
)
def test_who_is_welcome(address: str, host: str, origin: str | None, welcome: bool) -> None:
    where: Address = parse_address(address, "--serve")
    assert is_welcome(where, host, origin) is welcome


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--serve", "0.0.0.0:1"), "--insecure"),
        (("--serve", "nonsense"), "--serve"),
        (("--serve", "--record", "x"), "record"),
        (("--serve", "--once"), "--once"),
    ],
)
def test_what_cannot_be_served_is_one_line(words: tuple[str, ...], why: str) -> None:
    done = subprocess.run([*CONSOLE, "--simulate", "2", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and why in done.stderr


def test_a_busy_port_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [*CONSOLE, "--simulate", "2", "--serve", where]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "give another address" in done.stderr


@pytest.mark.skipif(find_spec("PySide6") is None, reason="no PySide6 here, which brings a Chromium")
async def test_a_browser_shows_the_console_and_obeys_its_keys_and_clicks(served: Served, tmp_path: Path) -> None:
    steps = (("worker:2", "v"), ("entered last", "@4 events"), ("1 event", "escape"), ("r restart", "?"))
    shown = await asyncio.to_thread(visit, served.url, tmp_path, (*steps, ("On this page", "q")))
    assert "worker:1 entered last" in shown[1]
    pictures = [tmp_path / f"browser-{number:02}.png" for number in range(1, 6)]
    assert all(picture.stat().st_size > 10_000 for picture in pictures)
