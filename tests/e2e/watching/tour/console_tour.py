"""A tour of the whole console in a real terminal: every page, key and click over simulated faults, in tmux."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text
from watching.tour.console_legs import Leg, Stop

ROOT = Path(__file__).resolve().parents[4]
SOURCES = os.pathsep.join(str(ROOT / name) for name in ("core", "agent", "console", "trainer", "protos"))
CONSOLE = (sys.executable, "-m", "tfscale.console.cli")
VARIABLES = {"PYTHONPATH": SOURCES, "XDG_CONFIG_HOME": "/nonexistent", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
KEY_NAMES = ("Enter", "Escape", "Space", "Up", "Down", "Left", "Right", "C-p")
"""Keys that tmux knows by name."""
PATIENCE = 20.0
"""Seconds for a screen to show what it should."""


class Terminal:
    """A console in a window of a tmux server of its own."""

    def __init__(self, socket: str, leg: Leg, folder: Path) -> None:
        self._socket = socket
        environment = VARIABLES | {"XDG_STATE_HOME": str(folder)} | leg.variables
        variables = shlex.join(["env", *(f"{name}={value}" for name, value in environment.items())])
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "-c", str(folder))
        self._tmux("set-option", "-g", "status", "off")
        self.resize(80, 24)
        self._tmux("send-keys", "-l", f"exec {variables} {shlex.join([*CONSOLE, *leg.flags])}")
        self._tmux("send-keys", "Enter")

    def press(self, keys: Sequence[str]) -> None:
        for key in keys:
            if key.startswith("@"):
                self._click(key[1:])
            else:
                self._tmux("send-keys", *(() if key in KEY_NAMES else ("-l",)), key)
            time.sleep(0.15)

    def _click(self, words: str) -> None:
        """Click on the first place where these words are, as a terminal reports it (SGR 1006)."""
        rows = self.text().splitlines()
        y, row = next((y, row) for y, row in enumerate(rows, 1) if words in row)
        at = f"0;{cell_len(row.partition(words)[0]) + 2};{y}"
        for end in "Mm":
            self._tmux("send-keys", "-H", *(f"{byte:x}" for byte in f"\x1b[<{at}{end}".encode()))

    def text(self) -> str:
        return self._tmux("capture-pane", "-p")

    def picture(self, title: str) -> str:
        """Return the screen with its colours as SVG, in the fonts that the reader has."""
        text = Text.from_ansi(self._tmux("capture-pane", "-p", "-e"))
        lines = text.plain.splitlines()
        console = Console(record=True, file=StringIO(), width=max(map(len, lines), default=1), force_terminal=True)
        console.print(text, soft_wrap=True)
        return re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title=title), flags=re.DOTALL)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def has_ended(self) -> bool:
        done = subprocess.run(["tmux", "-L", self._socket, "has-session"], capture_output=True, check=False)
        return done.returncode != 0

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-u", "-L", self._socket, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@contextmanager
def terminal(leg: Leg, folder: Path) -> Iterator[Terminal]:
    if leg.recorded:
        command = [*CONSOLE, *leg.recorded, "--headless", "--out", "/dev/null", "--record", str(folder / "run.tfrec")]
        subprocess.run(command, env=os.environ | VARIABLES, check=True, capture_output=True)
    socket = f"tfscale-tour-{os.getpid()}"
    try:
        yield Terminal(socket, leg, folder)
    finally:
        subprocess.run(["tmux", "-L", socket, "kill-server"], capture_output=True, check=False)


def is_shown(text: str, stop: Stop) -> bool:
    # A sentence may be broken between words.
    flat = " ".join(text.split())
    return all(" ".join(each.split()) in flat for each in stop.shows) and not any(each in text for each in stop.hides)


def visit(window: Terminal, stop: Stop) -> None:
    """Press the keys, and wait until the screen shows what it should."""
    window.press(stop.keys)
    deadline = time.monotonic() + PATIENCE
    while not is_shown(text := window.text(), stop) and time.monotonic() < deadline:
        time.sleep(0.1)
    expected = f"{stop.name}: expected {list(stop.shows)} and none of {list(stop.hides)}"
    assert is_shown(text, stop), f"{expected}:\n{text}"


def drive(leg: Leg, folder: Path, pictures: Path | None = None) -> None:
    """Make all stops of a leg, resize the window, and quit; with `pictures`, a folder, draw each stop there."""
    with terminal(leg, folder) as window:
        for number, stop in enumerate(leg.stops, 1):
            visit(window, stop)
            if pictures is not None:
                (pictures / f"{leg.name}-{number:02}-{stop.name}.svg").write_text(window.picture(stop.name))
        for width, height in ((200, 60), (40, 12), (20, 6), (80, 24)):
            window.resize(width, height)
            time.sleep(0.5)
        visit(window, Stop("resized", ("Escape", "Escape", "Escape"), ("? help", "worker:")))
        window.press(["q"])
        deadline = time.monotonic() + PATIENCE
        while not window.has_ended() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert window.has_ended(), f"q did not end it:\n{window.text()}"
