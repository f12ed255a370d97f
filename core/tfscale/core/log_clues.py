"""Clues in logs: the line that explains why a program ended.

Imports the standard library alone, because the agent's supervisor imports this module.

Only a line's own words are read, so that agent and console find the same clue in the same lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

EXPLAINED = "tfscale: cannot run: "
"""Begin of the probe's line about a script that cannot go on; the reason and a remedy follow."""
UNTRAINED = "nothing was trained: "
"""Begin of the probe's note about a script that has ended well without a step for a known reason."""
UNMEASURED = "not measured: "
"""Begin of the agent's note about a second process that trains and does not report."""
UNFIT = "does not fit: "
"""Begin of the probe's note about a hook or a repair that does not fit this TensorFlow or Keras."""
SHOWS_LESS = "shows less: "
"""Begin of such a note about a hook without which steps, phases and the training are as they are with it."""
PEER = "peer_died"
"""Kind of a clue that the program ended because a peer had ended: a trace of the reason, not the reason."""

_LONGEST = 300
"""Characters of a line that are kept."""
OWN = "--- tfscale: "
"""Begin of the lines that the shim adds to a task's log."""

OUT_OF_STEP = "out_of_step"
"""Kind of a clue that the workers met in different collectives."""

_KINDS: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    (
        OUT_OF_STEP,
        "the workers run different collectives (does one of them evaluate alone?)",
        re.compile(
            r"another member in the group expected|mismatch in the collective instance"
            r"|collective instance \d+ expected .* but got",
            re.IGNORECASE,
        ),
    ),
    (
        PEER,
        "another task had died",
        re.compile(
            r"collective ops is aborted|connection reset by peer|(un)?available.*(failed to connect|socket closed)"
            r"|heartbeat timeout|stopped sending heartbeats|unhealthy task|task .* is in error"
            r"|barrier .*(timed out|failed)|another task died",
            re.IGNORECASE,
        ),
    ),
    # Before memory: TensorFlow calls a full disk ResourceExhausted, too.
    (
        "disk_full",
        "no space left on its disk",
        re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE),
    ),
    (
        "out_of_memory",
        "out of memory",
        re.compile(
            r"\bOOM\b|out of memory|resource_?\s?exhausted|MemoryError|bad_alloc|cannot allocate", re.IGNORECASE
        ),
    ),
    (
        "not_a_number",
        "not a number",
        re.compile(
            r"tensor had (nan|inf)|inf/nan|nan loss|loss (is|became) nan|check_?numerics.*failed", re.IGNORECASE
        ),
    ),
    (
        "address_in_use",
        "its address is in use",
        re.compile(r"address already in use|EADDRINUSE|could not start gRPC", re.IGNORECASE),
    ),
    (
        "no_program",
        "its program is not there",
        re.compile(r"can't open file '.*No such file or directory|No module named .*__main__"),
    ),
    (
        "gpu",
        "an error of its GPU",
        re.compile(r"\bXid\b|CUDA_ERROR_(?!NO_DEVICE)|uncorrectable ECC|device-side assert|fell off the bus"),
    ),
    ("fatal", "a fatal check", re.compile(r"^F\d{4} |Check failed:|Segmentation fault|Fatal Python error")),
)
_EXCEPTION = re.compile(r"^([\w.]+(Error|Exception|Exit|Interrupt|Iteration|Warning)|[\w.]*errors_impl\.\w+)\b(:|$)")
_FROM_TENSORFLOW = re.compile(
    r"^(\w+\.)*errors_impl\.|^(Internal|Cancelled|Aborted|Unavailable|DeadlineExceeded)Error\b"
)
_NOISE = re.compile(
    r"^\s*$|^\s+(File |[~^]+|at )|cuInit|This TensorFlow binary|computation_placer|oneDNN|^I\d{4} |^W\d{4} "
)
_PREFIX = re.compile(
    r"^([EFWI]\d{4} [\d:.]+ +\d+ |\d{4}-\d\d-\d\d [\d:.]+: [EFWI] )\S+:\d+\] |^(\w+\.)+(?=\w+(Error|Exception)\b)"
)
"""Words that TensorFlow writes before a message: level, time, thread and source, or the module of an exception."""
_NODE = re.compile(r"\{\{function_node [^}]*\}\} ?")
_ADDRESS = re.compile(r"\bipv(?:4:([\d.]+)|6:(?:%5B|\[)([\da-f:]+)(?:%5D|\])):(\d+)", re.IGNORECASE)
_TASK = re.compile(r"/job:(\w+)/(?:replica:\d+/)?task:(\d+)")


@dataclass(frozen=True, slots=True)
class Clue:
    """A line of a log that explains an end."""

    kind: str
    words: str
    """The kind in the words of a sentence."""
    line: str

    @property
    def message(self) -> str:
        """Message of the line, without the log's prefix."""
        return _NODE.sub("", _PREFIX.sub("", self.line))

    @property
    def is_own(self) -> bool:
        """True for a failure of the program itself, as TensorFlow raises none for a lost peer."""
        return self.kind not in (PEER, "exception") or (
            self.kind == "exception" and not _FROM_TENSORFLOW.match(self.line)
        )

    @property
    def culprit(self) -> str | None:
        """Task that the line names as dead; None if the line names none."""
        match = _TASK.search(self.line)
        return f"{'chief' if match[1] == 'master' else match[1]}:{match[2]}" if match and self.kind == PEER else None

    @property
    def address(self) -> tuple[str, int] | None:
        """(host, port) of the unreachable peer in the line; None if the line names none."""
        match = _ADDRESS.search(self.line)
        return (match[1] or match[2], int(match[3])) if match and self.kind == PEER else None


def find_clue(lines: Sequence[str]) -> Clue | None:
    """Return the probe's own clue, else the first reason of the program's own.

    Without these, return the first line about a peer's death, else the last exception; None if there is no such line.
    """
    if explained := [line.strip() for line in _apart(lines) if line.startswith(EXPLAINED)]:
        return Clue("explained", "the reason is known", explained[-1])
    clues = [clue for line in lines if (clue := _classify(line)) is not None]
    own = next((clue for clue in clues if clue.kind != PEER), None)
    if own or clues:
        return own or clues[0]
    raised = [line.strip() for line in lines if _EXCEPTION.match(line)]
    return Clue("exception", "an exception", raised[-1][:_LONGEST]) if raised else None


def last_words(lines: Sequence[str], most: int = 8) -> tuple[str, ...]:
    """Return the end of the last start's log: at most `most` lines, shortened, with the line of the clue."""
    own = [line for line in _apart(_of_last_start(lines)) if not _NOISE.search(line)]
    end = [line.rstrip()[: None if line.startswith(EXPLAINED) else _LONGEST] for line in own[-most:]]
    clue = find_clue(own)
    if clue is None or clue.line in (line.strip() for line in end):
        return tuple(end)
    return (clue.line, *end[1 - most :])


def _apart(lines: Sequence[str]) -> list[str]:
    """Return the lines, with the probe's own line cut off from unfinished output before it."""
    parts = (line.partition(EXPLAINED) for line in lines)
    return [
        part
        for before, explained, rest in parts
        for part in (before, explained + rest)
        if part or not (before or explained)
    ]


def _of_last_start(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines of the last start, without the agent's own lines, which only repeat the exit status."""
    starts = [row for row, line in enumerate(lines) if line.startswith(OWN) and ": ended with " not in line]
    rest = lines[starts[-1] + 1 :] if starts else lines
    return [line for line in rest if not line.startswith(OWN)]


def _classify(line: str) -> Clue | None:
    if _NOISE.search(line):
        return None
    for kind, words, pattern in _KINDS:
        if pattern.search(line):
            return Clue(kind, words, line.strip()[:_LONGEST])
    return None
