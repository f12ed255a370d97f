"""Console in a browser: each open page runs a console of its own, drawn over a websocket.

A page may do everything that the server's user may, so it must know the token that was printed with the address. The
first visit brings the token in the URL and gets a cookie for it, which a browser sends with the websocket, too.
"""

from __future__ import annotations

import hmac
import os
import secrets
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web
from textual_serve.app_service import AppService
from textual_serve.server import Server, to_int
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.errors import TfscaleError
from yarl import URL

_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self' ws: wss:; frame-ancestors 'none'"
)
"""Content security policy: the page loads nothing from other servers, and no other page may embed it."""
_PAGE = Path(__file__).with_name("page")
"""Folder of the page: Textual's own loads a font from another server, and leaves keys to the rest of the page."""
_MOST_CELLS = 1000
"""Most columns and rows of a page: a screen of more is no browser's, and each cell takes memory."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ConsoleServer(Server):
    """Textual's server, closed to other users and to pages of other sites: its websocket gives commands."""

    def __init__(self, arguments: Sequence[str], address: Address, tell: Callable[[str], None]) -> None:
        command = shlex.join([sys.executable, "-m", "tfscale.console.cli", *arguments])
        super().__init__(command, address.host, address.port, title="tfscale", templates_path=_PAGE)
        self._address = address
        self._tell = tell
        self._token, self._cookie = secrets.token_urlsafe(), secrets.token_urlsafe()
        self._cookie_name = f"tfscale-{address.port}"
        """Name of the cookie, with the port: browsers send a host's cookies to all its ports."""

    def serve(self, debug: bool = False) -> None:  # noqa: ARG002 - its developers' own
        """Serve until interrupted. Raises OSError if the address cannot be bound."""
        web.run_app(self._make_app(), host=self.host, port=self.port, print=self._announce, access_log=None)

    async def on_startup(self, app: web.Application) -> None:
        """Start without Textual's banner on stdout."""

    def _announce(self, *_: object) -> None:
        self._tell(f"serving http://{self._address}/?token={self._token}, Ctrl-C ends it")

    async def _make_app(self) -> web.Application:
        app = await super()._make_app()
        app.middlewares.append(self._guard())
        return app

    async def handle_index(self, request: web.Request) -> Any:
        """Return the page with links to the host name of the request, which may be a tunnel's."""
        self.public_url = f"{request.scheme}://{request.host}"
        return await super().handle_index(request)

    async def _process_messages(self, websocket: web.WebSocketResponse, app_service: AppService) -> None:
        resize = app_service.set_terminal_size

        async def resize_within(width: int, height: int) -> None:
            await resize(min(width, _MOST_CELLS), min(height, _MOST_CELLS))

        app_service.set_terminal_size = resize_within  # type: ignore[method-assign]
        await super()._process_messages(websocket, app_service)

    def _guard(self) -> Any:
        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            if not is_welcome(self._address, request.host, request.headers.get("Origin")):
                raise web.HTTPForbidden(text="not from here: open the page by the address that the console printed\n")
            if self._is_equal(self._token, request.query.get("token", "")) and request.path == "/":
                return self._welcomed(request)
            if not self._is_equal(self._cookie, request.cookies.get(self._cookie_name, "")):
                raise web.HTTPForbidden(text="no token: open the page by the URL that the console printed, as it is\n")
            if any(to_int(request.query.get(side, ""), 1) > _MOST_CELLS for side in ("width", "height")):
                raise web.HTTPBadRequest(text=f"a page has at most {_MOST_CELLS} columns and rows\n")
            response = await handler(request)
            if not response.prepared:
                response.headers["Content-Security-Policy"] = _POLICY
            return response

        return guard

    def _welcomed(self, request: web.Request) -> web.StreamResponse:
        """Return a cookie in exchange for the token, and the page's address without it: browsers keep addresses."""
        left = {name: value for name, value in request.query.items() if name != "token"}
        response = web.Response(status=303, headers={"Location": str(URL("/").with_query(left))})
        response.set_cookie(self._cookie_name, self._cookie, httponly=True, samesite="Lax", path="/")
        return response

    @staticmethod
    def _is_equal(secret: str, given: str) -> bool:
        return hmac.compare_digest(secret.encode(), given.encode(errors="replace"))


def is_welcome(address: Address, host: str, origin: str | None) -> bool:
    """Decide whether a request comes from a page of this server, and not from another site's page.

    `host` and `origin` are the request's headers; a browser sends `origin` with every websocket.
    """
    url = URL(f"http://{host}")
    if address.is_loopback and url.host not in ("localhost", "127.0.0.1", "::1", address.host):
        return False
    return origin is None or URL(origin).authority == url.authority


def serve(arguments: Sequence[str], address: Address, tell: Callable[[str], None]) -> None:
    """Serve until interrupted, after printing the URL. `arguments` are those of each console. Raises TfscaleError."""
    try:
        ConsoleServer(arguments, address, tell).serve()
    except OSError as error:
        raise TfscaleError(f"--serve {address}: {os.strerror(error.errno or 0)}: give another address") from None
