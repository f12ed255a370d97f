"""Thread that reads and writes files for the event loop, which must go on while a disk hangs.

It ends once nothing is left to do: a new one, which takes 0.1 ms, carries out the next call. So nobody has to close it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from tfscale.core.errors import TfscaleError

_PATIENCE = 5.0
"""Seconds for one call; a disk under load takes fractions of a second."""

Result = TypeVar("Result")
_Awaited = tuple["asyncio.Future[Any]", asyncio.AbstractEventLoop, Callable[[Any], None]]
_Call = tuple[Callable[[], Any], _Awaited | None]


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
        self._calls: deque[_Call] = deque()
        self._is_running = False
        """True while a thread carries out the calls; both change together, under `_change`."""
        self._change = threading.Lock()
        self._began: float | None = None
        """When the call under way began."""

    async def call(self, function: Callable[[], Result], discard: Callable[[Result], None] = _keep) -> Result:
        """Return the function's result. Raises what the function raises, and DiskHangs."""
        if self._began is not None and time.monotonic() - self._began > self._patience:
            raise DiskHangs(self._why())
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()
        self._put((function, (done, loop, discard)))
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

    def finish(self, function: Callable[[], object]) -> None:
        """Carry out a function once all calls before it are, which nobody waits for: it closes what they opened.

        It comes even where the disk answers only after its calls were given up.
        """
        self._put((function, None))

    def _why(self) -> str:
        return f"the disk has not answered for {self._patience:g} s: look at its mount"

    def _put(self, call: _Call) -> None:
        with self._change:
            self._calls.append(call)
            if not self._is_running:
                threading.Thread(target=self._run, name="files", daemon=True).start()
                self._is_running = True

    def _next(self) -> _Call | None:
        with self._change:
            self._is_running = bool(self._calls)
            return self._calls.popleft() if self._calls else None

    def _run(self) -> None:
        while (call := self._next()) is not None:
            function, awaited = call
            if awaited is not None and awaited[0].cancelled():
                continue
            self._began = time.monotonic()
            outcome = _outcome(function)
            self._began = None
            if awaited is not None:
                done, loop, discard = awaited
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
