"""Legs of the tour through the console: the keys and the clicks of each page, and what the screen must then show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Stop:
    """Stop of the tour: keys as tmux names them, and the text that must then be on the screen, or must not.

    `@words` instead of a key is a click on these words.
    """

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
            Stop("cluster", (), ("tfscale simulated", "worker:3 has been slow", "12/12 up")),
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
            Stop("restart-yes", ("r", "y"), ("restart done",)),
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
            Stop("charts", ("d", "c"), ("phases of a step", "its 11 peers"), ("rank 3 on",)),
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
        (Stop("cluster", (), ("cannot reach worker:2's agent since", "hear it: it lives", "◌ agent down")),),
    ),
    Leg(
        "mouse",
        SLOW,
        (
            Stop("cluster", (), ("worker:3 has been slow", "▲ 1.")),
            Stop("steps", ("@2 steps",), ("enters after",)),
            Stop("events", ("@4 events",), ("1 event",)),
            Stop("advice", ("@5 advice",), ("What would help",)),
            Stop("heat", ("@3 heat",), ("lag over its peers'",)),
            Stop("log", ("@7 log",), ("log of worker:",)),
            Stop("cluster-again", ("@1 cluster",), ("? help",)),
            Stop("row", ("@worker:7",), ("▌  worker:7",)),
            Stop("help", ("@help",), ("On this page",)),
        ),
    ),
    Leg(
        "hosts",
        ("--simulate", "6", "--spares", "1", "--fault", "worker:2=link@2s", "--fault", "worker:4=gone@14s"),
        (
            Stop("link", (), ("the link from worker:2 to worker:3 is slow",)),
            Stop("hosts", ("6",), ("7 hosts 1 spare", "slow to 10.0.0.5", "slow from 10.0.0.4")),
            Stop("dead", (), ("1 dead", "worker:4's host does not answer to anyone")),
            Stop("without", ("Escape", "!", "W"), ("Restart all 6 workers without 10.0.0.6?",)),
            Stop("moved", ("y",), ("6/6 up", "generation 2", "cordoned: 10.0.0.6")),
            Stop("left", ("6", "G"), ("1 cordoned", "cordoned: restart asked for at the console")),
        ),
    ),
    Leg(
        "servers",
        ("--simulate", "3", "--ps", "2", "--fault", "ps:1=uneven", "--fault", "worker:1=1.8x@2s"),
        (
            Stop("cluster", (), ("Nobody waits for it", "ps:1")),
            Stop("chief", (":", "chief 0", "Enter", "Enter"), ("chief:0", "waiting for a worker")),
            Stop("server", ("Escape", ":", "ps 1", "Enter", "Enter"), ("ps:1", "pulled")),
        ),
    ),
    Leg(
        "stages",
        ("--simulate", "2", "--stages", "4"),
        (
            Stop("cluster", (), ("1 all-reduce for 8 micro-batches",)),
            Stop("task", ("Enter", "d"), ("stage:3", "bubble 27%")),
        ),
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
