"""Thread that reads and writes files for the event loop, which must go on while a disk hangs."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from tfscale.core.errors import TfscaleError

_PATIENCE = 5.0
"""Seconds for one call; a disk under load takes fractions of a second."""

Result = TypeVar("Result")


class DiskHangs(TfscaleError):
    """A file that was neither read nor written in time."""


def _keep(_result: object) -> None:
    """Do nothing with a result that nobody waits for any more."""


class FileThread:
    """Queue of calls that touch files in one folder. They are carried out one after the other.

    A call that is given up may still be carried out, once the disk answers again; its result goes to `discard`.
    """

    def __init__(self, patience: float = _PATIENCE) -> None:
        self._patience = patience
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any], Any, Callable[[Any], None]]] = (
            queue.SimpleQueue()
        )
        self._thread: threading.Thread | None = None
        self._began: float | None = None
        """When the call under way began."""

    async def call(self, function: Callable[[], Result], discard: Callable[[Result], None] = _keep) -> Result:
        """Return the function's result. Raises what the function raises, and DiskHangs."""
        if self._began is not None and time.monotonic() - self._began > self._patience:
            raise DiskHangs(self._why())
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="files", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()
        self._calls.put((function, done, loop, discard))
        try:
            async with asyncio.timeout(self._patience):
                return await done
        except (TimeoutError, asyncio.CancelledError) as given_up:
            if not done.cancelled() and done.exception() is not None:
                raise  # the function's own
            if not done.cancelled():  # it has come in the moment in which it was given up
                discard(done.result())
            if isinstance(given_up, TimeoutError):
                raise DiskHangs(self._why()) from None
            raise

    def _why(self) -> str:
        return f"the disk has not answered for {self._patience:g} s: look at its mount"

    def _run(self) -> None:
        while True:
            function, done, loop, discard = self._calls.get()
            if done.cancelled():
                continue
            self._began = time.monotonic()
            outcome = _outcome(function)
            self._began = None
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(_settle, done, discard, *outcome)


def _outcome(function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return function(), None
    except BaseException as error:
        return None, error


def _settle(
    done: asyncio.Future[Any], discard: Callable[[Any], None], result: Any, error: BaseException | None
) -> None:
    if done.cancelled():
        if error is None:
            discard(result)
    elif error is None:
        done.set_result(result)
    else:
        done.set_exception(error)
