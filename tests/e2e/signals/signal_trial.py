"""Signals to a real program, by itself and under an agent: each way in which they come, each start of an agent."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from loopback import free_addresses

NUMBERS = tuple(number for number in range(1, 65) if number not in (signal.SIGKILL, signal.SIGSTOP))
"""All signals that a program may see."""
ALONE, CLUSTER, WITH_TASK = "alone", "cluster", "exit-with-task"
SETTINGS = (ALONE, CLUSTER, WITH_TASK)
"""Ways in which an agent is started: before a program alone, for a task of a cluster, and so that it ends with it."""
TERMINAL, GROUP, AGENT, TASK = "terminal", "group", "agent", "task"
WAYS = (TERMINAL, GROUP, AGENT, TASK)
"""Senders: a terminal, a kill of the started process group, of the started process, and of the program itself."""
_KEYS = {signal.SIGINT: b"\x03", signal.SIGQUIT: b"\x1c", signal.SIGTSTP: b"\x1a"}
OF_TERMINAL = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH)
"""Signals that a terminal sends: its end, three keys and a new size."""
_PROGRAM = """
import os, signal, sys, time
over, handles = sys.argv[2], sys.argv[3] == "handles"
seen = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def note(number, frame):
    os.write(seen, b"%d\\n" % number)
    if number == signal.SIGTERM:
        sys.exit(9)
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    if handles:
        signal.signal(number, note)
os.write(seen, b"up %d\\n" % os.getpid())
while not os.path.exists(over):
    time.sleep(0.01)
sys.exit(7)
"""
_PATIENCE = 30.0
_ARRIVAL = 0.5
"""Seconds in which a signal has come, or comes to nobody: through an agent it takes some milliseconds."""


@dataclass(frozen=True)
class Seen:
    """Facts about one trial: calls of the program's handlers in their order, and its end."""

    calls: tuple[int, ...]
    end: str
    """`exited 7` where the program went on to its own end."""


@dataclass
class Trial:
    """One start of the program, stock without a setting, in a folder of its own within `place`."""

    place: Path
    setting: str | None
    way: str
    handles: bool = True

    @property
    def folder(self) -> Path:
        return self.place / (self.setting or "stock")

    def sees(self, *numbers: int) -> Seen:
        """Send these signals, one after the other, and return what the program saw of them."""
        with self._started() as (front, send):
            for number in numbers:
                before = len(self._calls())
                send(number)
                self._wait_for(lambda before=before: len(self._calls()) > before or self._has_ended(front), _ARRIVAL)
            if self._pid and _is_stopped(self._pid):
                return Seen(self._calls(), "stopped")
            time.sleep(_ARRIVAL / 2)  # for a second call
            if front.poll() is not None and not self._has_ended(front):
                return Seen(self._calls(), "goes on without its agent")
            (self.folder / "over").touch()
            self._wait_for(lambda: self._has_ended(front), _PATIENCE)
            return Seen(self._calls(), self._end(front))

    @contextlib.contextmanager
    def _started(self) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[int], None]]]:
        self.folder.mkdir()
        number, terminal = pty.openpty()
        keyboard = os.fdopen(number, "r+b", buffering=0)
        with (self.folder / "stderr").open("wb") as errors:
            front = subprocess.Popen(
                [*(["setsid", "--ctty"] if self.way == TERMINAL else []), *self._command()],
                cwd=self.folder,
                stdin=terminal,
                stdout=terminal,
                stderr=errors,
                process_group=None if self.way == TERMINAL else 0,
                env=os.environ | {"XDG_STATE_HOME": str(self.folder / "state")},
            )
        os.close(terminal)
        try:
            self._wait_for(lambda: bool(self._pid), _PATIENCE)
            yield front, lambda number: self._send(front, keyboard, number)
        finally:
            (self.folder / "over").touch()
            keyboard.close()
            for pid in (front.pid, self._pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                front.terminate()
                front.wait(10)
            front.kill()
            front.wait()
            self._wait_for(lambda: not Path(f"/proc/{self._pid}").exists(), _PATIENCE)

    def _command(self) -> list[str]:
        program = [sys.executable, "-c", _PROGRAM, "seen", "over", "handles" if self.handles else ""]
        if self.setting is None:
            return program
        agent = [sys.executable, "-m", "tfscale.agent.cli", "--grace", "2"]
        if self.setting != ALONE:
            worker, own = free_addresses(2)
            file = self.folder / "cluster.toml"
            file.write_text(f'[cluster]\nworker = ["{worker}"]\n[agents]\n"worker:0" = "{own}"\n')
            agent += ["--cluster", str(file)]
        if self.setting == WITH_TASK:
            agent += ["--exit-with-task"]
        return [*agent, "--", *program]

    def _send(self, front: subprocess.Popen[bytes], keyboard: FileIO, number: int) -> None:
        if self.way == GROUP:
            os.killpg(front.pid, number)
        elif self.way in (AGENT, TASK):
            os.kill(front.pid if self.way == AGENT else self._pid, number)
        elif number == signal.SIGWINCH:
            fcntl.ioctl(keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
        elif number == signal.SIGHUP:
            keyboard.close()
        else:
            keyboard.write(_KEYS[signal.Signals(number)])

    def _lines(self) -> Sequence[str]:
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "seen").read_text().splitlines()
        return ()

    @property
    def _pid(self) -> int:
        """Process of the program, 0 before it is up."""
        return next((int(line.split()[1]) for line in self._lines() if line.startswith("up ")), 0)

    def _calls(self) -> tuple[int, ...]:
        return tuple(int(line) for line in self._lines() if not line.startswith("up "))

    def _state(self) -> dict[str, int]:
        """Return the newest state that the program's shim has written."""
        files = list((self.folder / "state").rglob("worker-0.state.json"))
        return json.loads(files[0].read_text()) if files else {}  # type: ignore[no-any-return]

    def _has_ended(self, front: subprocess.Popen[bytes]) -> bool:
        if self.setting == CLUSTER:
            return "ended" in self._state()
        is_gone = front.poll() is not None
        return is_gone and (self.setting is None or "ended" in self._state())

    def _end(self, front: subprocess.Popen[bytes]) -> str:
        """Return how the program ended, for whom started it; in a cluster its agent's end stands for nothing."""
        if self.setting == CLUSTER:
            state = self._state()
            status = -state["signal"] if state.get("signal") else state["code"]
        else:
            status = front.wait(_PATIENCE)
        return f"exited {status}" if status >= 0 else f"signal {-status}"

    @staticmethod
    def _wait_for(is_so: Callable[[], bool], seconds: float) -> None:
        until = time.monotonic() + seconds
        while not is_so() and time.monotonic() < until:
            time.sleep(0.01)


def _is_stopped(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False
