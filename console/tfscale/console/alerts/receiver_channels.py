"""Channels to receivers: a command, a web address, and the services that apprise knows."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import logging
import os
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, Protocol

from tfscale.console.alerts.message import Message
from tfscale.console.alerts.receiver import Receiver, without_secrets
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.text import signal_name

PATIENCE = 30.0
"""Seconds for a command to end, and for a receiver to answer."""


class NotSentError(TfscaleError):
    """Message that did not arrive; its text says why, without a secret."""

    is_final = False
    """True where another try would not help."""


class RefusedError(NotSentError):
    """Message that the receiver refuses, or a command that has failed."""

    is_final = True


class Channel(Protocol):
    """Way to one receiver."""

    name: str
    """Setting and receiver, without a secret."""
    is_program: bool
    """True where each alert is sent by itself, for programs; people get those that came together as one message."""

    async def send(self, message: Message) -> None:
        """Send a message, within about `PATIENCE`. Raises NotSentError."""


class CommandChannel:
    """Command that is run for each alert: JSON on its stdin, and the main fields as variables."""

    is_program = True

    def __init__(self, command: str) -> None:
        self._command = command
        self.name = f"--on-event {command!r}"

    async def send(self, message: Message) -> None:
        line = message.alerts[0].line(message.command)
        environment = os.environ | {f"TFSCALE_EVENT_{name.upper()}": _plain(line.get(name)) for name in _NAMED}
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_shell(
                self._command, stdin=pipe, stdout=sys.stderr, env=environment, start_new_session=True
            )
        except OSError as error:
            raise NotSentError(f"it cannot be started: {error.strerror}") from None
        try:
            async with asyncio.timeout(PATIENCE):
                await process.communicate(json.dumps(line).encode() + b"\n")
        except TimeoutError:
            raise RefusedError(f"it was ended: it took longer than {PATIENCE:.0f} s") from None
        finally:
            if process.returncode is None:
                _kill(process)
                await process.wait()
        if status := process.returncode:
            raise RefusedError(f"it exited {status}" if status > 0 else f"it was killed by {signal_name(-status)}")


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the command with all that it has started, where the system knows groups of processes."""
    with contextlib.suppress(ProcessLookupError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, 9)


_NAMED = ("change", "title", "text", "run", "kind", "subject", "severity", "sentence", "begin", "end", "lost")


def _plain(value: Any) -> str:
    return "" if value is None else str(value)


class WebhookChannel:
    """Web address to which each alert is posted as JSON."""

    is_program = True

    def __init__(self, receiver: Receiver) -> None:
        self._url = receiver.address
        self.name = f"--webhook {receiver}"

    async def send(self, message: Message) -> None:
        data = json.dumps(message.alerts[0].line(message.command)).encode()
        await _in_thread(lambda: self._post(data))

    def _post(self, data: bytes) -> None:
        request = urllib.request.Request(self._url, data, {"Content-Type": "application/json"}, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE):
                pass
        except (OSError, ValueError, http.client.HTTPException) as error:
            is_refused = False
            if isinstance(error, urllib.error.HTTPError):
                error.close()
                is_refused = error.code < 500
            why = " ".join(str(error).split()) or repr(error)
            raise (RefusedError if is_refused else NotSentError)(without_secrets(why, self._url)) from None


class AppriseChannel:
    """Service that apprise knows: Slack, Teams, PagerDuty, ntfy, mail, and a hundred others."""

    is_program = False

    def __init__(self, receiver: Receiver, setting: str = "--notify") -> None:
        """Make the channel. Raises UsageError where apprise is not installed or does not know the address."""
        self._apprise = _import_apprise(receiver.place)
        self._address = receiver.address
        self.name = f"{setting} {receiver}"
        asset = self._apprise.AppriseAsset(app_id="tfscale", app_desc="tfscale", image_url_mask=None, async_mode=False)
        self._service = self._apprise.Apprise.instantiate(receiver.address, asset=asset)
        if self._service is None:
            raise UsageError(f"{receiver.place}: apprise knows no such address as {receiver}: its pages list them")

    async def send(self, message: Message) -> None:
        await _in_thread(lambda: self._notify(message))

    def _notify(self, message: Message) -> None:
        kinds = self._apprise.NotifyType
        kind = kinds.SUCCESS if message.is_good else kinds.FAILURE if message.severity == "critical" else kinds.WARNING
        with _reasons.collected() as reasons:
            try:
                is_sent = self._service.notify(title=message.title, body=message.text, notify_type=kind)
            except Exception as error:  # each of a hundred services has its own, and those of what it talks through
                is_sent = False
                reasons.append(f"{type(error).__name__}: {' '.join(str(error).split())}"[:300])
        if not is_sent:
            why = "; ".join(reasons) or "apprise gives no reason"
            raise NotSentError(without_secrets(why, self._address))


class _Reasons(logging.Handler):
    """Handler of apprise's log, which alone says why a message was not sent; each thread has its own reasons."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._own = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        if (reasons := getattr(self._own, "reasons", None)) is not None:
            # Of a hook without a channel it says `to None`.
            reasons.append(record.getMessage().rstrip(".").removesuffix(" to None"))

    @contextlib.contextmanager
    def collected(self):  # type: ignore[no-untyped-def]
        """Yield the list in which this thread's reasons are within the block."""
        self._own.reasons = []
        try:
            yield self._own.reasons
        finally:
            self._own.reasons = None


_reasons = _Reasons()


def _import_apprise(place: str) -> Any:
    try:
        import apprise
    except ImportError:
        raise UsageError(f"{place} needs apprise: pip install 'tfscale[notify]'") from None
    log = logging.getLogger("apprise")
    # Its lines have parts of addresses: they go to nobody else.
    log.handlers, log.propagate = [_reasons], False
    for name in ("urllib3", "requests", "requests_oauthlib", "oauthlib"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return apprise


async def _in_thread(send: Callable[[], None]) -> None:
    """Run a function that may hang in a thread, for which the end of the console does not wait. Raises NotSentError."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def finish(error: Exception | None) -> None:
        if not done.done():
            done.set_result(None) if error is None else done.set_exception(error)

    def run() -> None:
        error = None
        try:
            send()
        except Exception as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(finish, error)

    threading.Thread(target=run, name="alert", daemon=True).start()
    try:
        async with asyncio.timeout(PATIENCE):
            await done
    except TimeoutError:
        raise NotSentError(f"it has not answered for {PATIENCE:.0f} s") from None
