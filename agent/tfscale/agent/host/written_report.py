"""Report of a run, which a console without a screen writes beside the logs: a process of its own for the whole run.

It is that of the lead's agent, in a session of its own, since what a launcher sends to its tasks is not for it. It ends
a little after the tasks, or when its agent is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import time
from collections.abc import AsyncIterator, Callable

from tfscale.agent.private_file import open_private
from tfscale.agent.settings import AgentSettings
from tfscale.agent.supervision.task_environment import console_command
from tfscale.core.cluster.local.private_folder import make_private

_logger = logging.getLogger(__name__)
_LAST_WORDS = 4.0
"""Seconds for the ends of the other tasks to reach the console, and for its last lines."""
_OTHERS = 15.0
"""Seconds for the other tasks to end where the own has ended well: then nobody waits for this agent's exit status."""
_WIDTH = 120
"""Characters of a line at its end."""
_LOOK = 0.2
_ASKED = 1.0
"""Seconds in which it ends when asked."""
_UNTIL_PARENT_ENDS = (
    "import ctypes, os, runpy, signal, sys; ctypes.CDLL(None).prctl(1, signal.SIGTERM); "
    "os.getppid() == {parent} or sys.exit(); runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)
"""Program that runs a module, and gets SIGTERM when its parent ends: PR_SET_PDEATHSIG of prctl(2)."""


@contextlib.asynccontextmanager
async def written_report(
    settings: AgentSettings, status: Callable[[], int], is_asked: Callable[[], bool]
) -> AsyncIterator[None]:
    """Have a console write the report in this block, if the settings ask for it; the run goes on without it, too.

    After a task that has ended well (`status` is 0) the block's end waits for the other tasks, for as long as the own
    has run at most, or until `is_asked` tells that somebody has asked the agent to end.
    """
    begin = time.monotonic()
    console = _started(settings) if settings.write_report and settings.leads else None
    try:
        yield
    finally:
        if console is not None:
            most = _LAST_WORDS if status() else _OTHERS
            await _end(console, min(most, time.monotonic() - begin), is_asked)


async def _end(console: subprocess.Popen[bytes], patience: float, is_asked: Callable[[], bool]) -> None:
    begin = time.monotonic()
    while not await _has_ended(console, _LOOK):
        if time.monotonic() - begin > (_LAST_WORDS if is_asked() else patience):
            console.terminate()
            if not await _has_ended(console, _ASKED):
                console.kill()
                console.wait()


def _started(settings: AgentSettings) -> subprocess.Popen[bytes] | None:
    path = settings.files.report
    python, _, module, *flags = console_command(settings)
    program = _UNTIL_PARENT_ENDS.format(parent=os.getpid())
    words = [python, "-c", program, module, *flags, "--plain", "--until", "finished,failed", "--log-level", "error"]
    try:
        make_private(path.parent)
        with os.fdopen(open_private(str(path), os.O_WRONLY | os.O_TRUNC), "wb") as file:
            return subprocess.Popen(
                words,
                env=os.environ | {"COLUMNS": str(_WIDTH)},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
    except OSError as error:
        _logger.warning("%s: no report is written (%s)", path, error.strerror)
        return None


async def _has_ended(console: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        await asyncio.to_thread(console.wait, seconds)
    except subprocess.TimeoutExpired:
        return False
    return True
