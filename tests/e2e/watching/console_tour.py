"""A tour of the whole console in a real terminal: every screen and every key over simulated faults, in tmux."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SOURCES = os.pathsep.join(str(ROOT / name) for name in ("core", "agent", "console", "trainer", "protos"))
CONSOLE = (sys.executable, "-m", "tfscale.console.cli")
VARIABLES = {"PYTHONPATH": SOURCES, "XDG_CONFIG_HOME": "/nonexistent", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
KEY_NAMES = ("Enter", "Escape", "Space", "Up", "Down", "Left", "Right", "C-p")
"""Keys that tmux knows by name."""
PATIENCE = 20.0
"""Seconds for a screen to show what it should."""


@dataclass(frozen=True)
class Stop:
    """Stop of the tour: keys as tmux names them, and the text that must then be on the screen, or must not."""

    name: str
    keys: Sequence[str] = ()
    shows: Sequence[str] = ()
    hides: Sequence[str] = ()


@dataclass(frozen=True)
class Leg:
    """Part of the tour in one console, from its start to its end."""

    name: str
    flags: Sequence[str]
    stops: Sequence[Stop]
    variables: dict[str, str] = field(default_factory=dict)
    recorded: Sequence[str] = ()
    """Flags of a console that records `run.tfrec` first."""


SLOW = ("--simulate", "12", "--fault", "worker:3=1.6x@2s")
_REACHING = ("restart; asks first", "stop; asks", "profile")
LEGS = (
    Leg(
        "straggler",
        SLOW,
        (
            Stop("cluster", (), ("tfscale simulated", "worker:3", "straggler", "12/12 up")),
            Stop("down", ("j", "j", "Down"), ("worker:3",)),
            Stop("marked", ("Space",), ("◆",)),
            Stop("unmarked", ("Escape",), ("worker:3",), ("◆",)),
            Stop("last", ("G",), ("worker:11",)),
            Stop("first", ("g",), ("worker:0",)),
            Stop("all-marked", ("a",), ("12 marked",)),
            Stop("none-marked", ("a",), (), ("12 marked",)),
            Stop("sort-offered", ("s",), ("sort by", "what is wrong with it")),
            Stop("sorted", ("Enter", "s", "Enter"), ("task↓",)),
            Stop("inverted", ("i",), ("task↑",), ("task↓",)),
            Stop("culprit", ("!",), ("▌  worker:3",)),
            Stop("filtered", ("/", "straggler"), ("worker:3",), ("worker:7 ",)),
            Stop("kept", ("Enter",), ("worker:3",), ("worker:7 ",)),
            Stop("unfiltered", ("Escape",), ("worker:7",)),
            Stop("paused", ("p",), ("PAUSED",)),
            Stop("unpaused", ("p",), (), ("PAUSED",)),
            Stop("help", ("?",), ("A step, from left", "On this page")),
            Stop("help-on", ("j",) * 30, ("restart; asks first", "Everywhere")),
            Stop("helped", ("Escape",), (), ("Everywhere",)),
            Stop("light", ("t",), ("worker:3",)),
            Stop("contrast", ("t",), ("worker:3",)),
            Stop("dark", ("t",), ("worker:3",)),
            Stop("task", ("Enter",), ("log of worker:", "esc back")),
            Stop("only-log", ("l",), ("log of worker:",)),
            Stop("task-again", ("l",), ("log of worker:",)),
            Stop("stack", ("b",), ("Main thread (most recent",)),
            Stop("stack-closed", ("Escape",), ("log of worker:",), ("Main thread",)),
            Stop("task-closed", ("Escape",), ("? help",)),
            Stop("log", ("l",), ("log of worker:",)),
            Stop("log-closed", ("Escape",), ("? help",)),
            Stop("stack-from-cluster", ("b",), ("Main thread (most recent",)),
            Stop("stack-from-cluster-closed", ("Escape",), ("? help",), ("Main thread",)),
            Stop("restart", ("r",), ("Restart all 12 workers?", "Last checkpoint ", "are repeated")),
            Stop("restart-no", ("n",), ("? help",), ("Restart all",)),
            Stop("restart-yes", ("r", "y"), ("cannot restart: this is a simulation",)),
            Stop("stop", ("x",), ("Stop all 12 workers?",)),
            Stop("stop-no", ("Escape",), (), ("Stop all 12 workers?",)),
            Stop("start", ("S",), ("Start worker:", "runs already")),
            Stop("start-no", ("Enter",), (), ("Start worker:",)),
            Stop("profile", ("P",), ("for how many seconds?", "5")),
            Stop("profile-go", ("Enter",), ("no profile: this is a simulation",)),
            Stop("palette", ("C-p",), ("Search for commands", "key /")),
            Stop("palette-task", ("go to worker:9",), ("go to worker:9",)),
            Stop("palette-gone", ("Enter",), ("? help",), ("go to worker:9",)),
            Stop("hosts", ("6",), ("12 hosts", "by others", "worker:3")),
            Stop("command", (":", "worker 7"), ("tab completes", "worker:7")),
            Stop("commanded", ("Enter",), ("? help",), ("tab completes",)),
            Stop("copied", ("y",), ("copied", "worker:7")),
            Stop("recording", ("R",), ("recording to",)),
            Stop("recorded", ("R",), ("recorded to",)),
        ),
    ),
    Leg(
        "views",
        SLOW,
        (
            Stop("cluster", (), ("worker:3 has been slow", "▲ 1.")),
            Stop("heat", ("h",), ("lag over its peers'", "[ ", "▲1.")),
            Stop("heat-moved", ("Right", "Left"), ("worker:3 on node-0003   lag 1.",)),
            Stop("heat-gpus", ("u",), ("worker:3 GPU 0 on node-0003",)),
            Stop("heat-measure", ("m",), ("worker:3 GPU 0 on",), ("lag over its peers'",)),
            Stop("heat-task", ("Enter",), ("log of worker:3",)),
            Stop("heat-again", ("Escape",), ("m measure",)),
            Stop("heat-closed", ("h",), ("? help",), ("m measure",)),
            Stop("columns", ("c",), ("Columns", "◆ phases"), ("◆ role",)),
            Stop("column-chosen", ("j", "Space"), ("◆ role",)),
            Stop("columns-usual", ("d",), ("Columns",), ("◆ role",)),
            Stop("columns-closed", ("Escape",), ("? help",), ("Columns",)),
            Stop("by-host", ("o",), ("by host", "▾ node-0000")),
            Stop("closed", ("Left",), ("▸ node-0003",)),
            Stop("opened", ("Right",), ("▾ node-0003",), ("▸",)),
            Stop("by-role", ("o",), ("by role", "12/12 up", "▾ worker")),
            Stop("by-nothing", ("o",), ("worker:1 ",), ("by role", "▾")),
            Stop("query", ("/", "step>1 !flag:straggler"), ("11 of 12",), ("worker:3   ●",)),
            Stop("query-wrong", (" x>1",), ("there is no column",)),
            Stop("query-closed", ("Escape",), ("worker:2 ",), ("there is no column", "of 12 ")),
        ),
    ),
    Leg(
        "pages",
        SLOW,
        (
            Stop("cluster", (), ("worker:3 has been slow", "▲ 1.")),
            Stop("steps", ("v",), ("worker:3 entered last; the others waited", "▲worker:3", "enters after")),
            Stop("steps-back", ("Left", "Left"), ("held, ", "before the newest")),
            Stop("steps-on", ("p",), ("the newest, second by second",)),
            Stop("steps-sorted", ("s",), ("in order",)),
            Stop("steps-zoomed", ("z",), ("worker:3 entered last",)),
            Stop("steps-task", ("G", "Enter"), ("log of worker:11",)),
            Stop("steps-again", ("Escape",), ("enters after",)),
            Stop("events", ("e",), ("1 event", "straggler   worker:3  has been slow"), ("enters after",)),
            Stop("evidence", ("Enter",), ("kind            straggler", "severity        serious")),
            Stop("no-evidence", ("Escape",), ("1 event",), ("kind            ",)),
            Stop("severe", ("f", "f", "f"), ("0 of 1 event   critical",), ("worker:3  has been slow",)),
            Stop("all-events", ("f",), ("worker:3  has been slow",)),
            Stop("events-filtered", ("/", "kind:crash"), ("0 of 1 event   kind:crash",)),
            Stop("events-unfiltered", ("Escape",), ("worker:3  has been slow",)),
            Stop("advice", ("A",), ("First, what is wrong", "What would help", "throughput   by the model")),
            Stop("advice-on", ("j",) * 30, ("● now, as the model has it", "of the ideal")),
            Stop("advice-closed", ("Escape",), ("! culprit",)),
            Stop("task", ("Enter",), ("worker:3   ● running", "rank 3 on GPU 0", "log of worker:3")),
            Stop("numbers", ("d",), ("gpu 0",), ("log of worker:3",)),
            Stop("charts", ("d", "c"), ("phases of a step", "GPU temperature", " s ago"), ("rank 3 on",)),
            Stop("zoom", ("z", "z", "z"), ("6 m ", "phases of a step")),
            Stop("log", ("l",), ("log of worker:3",), ("phases of a step",)),
            Stop("not-found", ("/", "zebra", "Enter"), ("not found",)),
            Stop("search-over", ("Escape",), ("log of worker:3",), ("not found",)),
            Stop("back", ("Escape",), ("! culprit",)),
        ),
    ),
    Leg(
        "crash",
        ("--simulate", "4", "--fault", "worker:2=kill@3s"),
        (
            Stop("cluster", (), ("worker:2 was killed by SIGKILL at", "their peer was gone", "exited 1", "✖ crash")),
            Stop("task", ("!", "Enter"), ("✖ SIGKILL", "was killed by SIGKILL at")),
        ),
    ),
    Leg(
        "hang",
        ("--simulate", "4", "--fault", "worker:2=hang@3s"),
        (Stop("cluster", (), ("△ no step for", "worker:2 has not entered the all-reduce")),),
    ),
    Leg(
        "cut",
        ("--simulate", "4", "--fault", "worker:2=cut@3s"),
        (Stop("cluster", (), ("no contact with the agent of worker:2 since", "does not answer", "◌ agent down")),),
    ),
    Leg(
        "healthy",
        ("--simulate", "4"),
        (
            Stop("cluster", (), ("● healthy: 4 workers in step", "nothing so far")),
            Stop("events", ("e",), ("Nothing so far.",)),
            Stop("advice", ("A",), ("nothing is at its limit", "What would help")),
        ),
    ),
    Leg(
        "replay",
        ("replay", "run.tfrec"),
        (
            Stop("cluster", (), ("tfscale simulated", "REPLAY")),
            Stop("held", ("p",), ("PAUSED",)),
            Stop("end", (":", "99%", "Enter"), ("worker:1 was killed by SIGKILL", "PAUSED")),
            Stop(
                "begin",
                (":", "0%", "Enter"),
                (
                    "PAUSED",
                    " 0%",
                ),
                ("SIGKILL",),
            ),
            Stop("next", ("n",), ("SIGKILL", "PAUSED")),
            Stop("forth", ("]", "]"), ("PAUSED",)),
            Stop("last", ("N",), ("PAUSED",)),
            Stop("faster", ("p", "+"), (" 2x",)),
            Stop("slower", ("-", "-"), (" 0.5x",)),
            Stop("not-recorded", ("R",), ("this is a replay",)),
        ),
        recorded=("--simulate", "3", "--fault", "worker:1=kill@5s", "--seconds", "10"),
    ),
    Leg(
        "read-only",
        (*SLOW, "--read-only"),
        (
            Stop("cluster", (), ("worker:3", "▲ 1.")),
            Stop("help", ("?",), ("On this page",), _REACHING),
            Stop("help-on", ("j",) * 30, ("Everywhere",), _REACHING),
            Stop("helped", ("Escape",), ("? help",)),
            Stop("nothing", ("r", "x", "S", "P", "b"), ("? help",), ("tasks?", "how many seconds", "no stack")),
        ),
    ),
    Leg(
        "plain",
        SLOW,
        (
            Stop("cluster", (), ("worker:3", "! 1.", "cccc")),
            Stop("help", ("?",), ("On this page",)),
        ),
        {"LC_ALL": "C", "NO_COLOR": "1"},
    ),
    Leg(
        "sixteen-colours",
        SLOW,
        (Stop("cluster", (), ("worker:3", "▲ 1.", "cccc")),),
        {"TERM": "xterm-16color", "COLORTERM": ""},
    ),
)


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
            self._tmux("send-keys", *(() if key in KEY_NAMES else ("-l",)), key)
            time.sleep(0.15)

    def text(self) -> str:
        return self._tmux("capture-pane", "-p")

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


def drive(leg: Leg, folder: Path) -> None:
    """Make all stops of a leg, resize the window, and quit."""
    with terminal(leg, folder) as window:
        for stop in leg.stops:
            visit(window, stop)
        for width, height in ((200, 60), (40, 12), (20, 6), (80, 24)):
            window.resize(width, height)
            time.sleep(0.5)
        visit(window, Stop("resized", ("Escape", "Escape", "Escape"), ("? help", "worker:")))
        window.press(["q"])
        deadline = time.monotonic() + PATIENCE
        while not window.has_ended() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert window.has_ended(), f"q did not end it:\n{window.text()}"
