"""Clues in logs: the line that explains why a program ended.

Agent and console find the same clue in the same lines, though an agent sends only the last of them. Standard library
alone, because the agent's supervisor imports this module.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tfscale.core.failure.failure_kinds import ANYWHERE, EXCEPTION, LAST_WORDS, OF_THE_LAST, PEER, FailureKind
from tfscale.core.failure.task_signals import TaskSignal
from tfscale.core.failure.uncaught_exception import HEADER, LOGGED, LONGEST, STYLE, uncaught_exception
from tfscale.core.log_clues import EXPLAINED, OWN

_FROM_TENSORFLOW = re.compile(r"^(Internal|Cancelled|Aborted|Unavailable|DeadlineExceeded)Error\b")
"""Exceptions that TensorFlow raises in a task whose peer is gone."""
_NOISE = re.compile(
    r"^\s*$|^\s+(File |[~^]+|at )|cuInit|This TensorFlow binary|computation_placer|oneDNN|^I\d{4} |^W\d{4} "
)
_NOT_LAST = re.compile(
    rf"^\s*[\W_]*$|{LOGGED.pattern}|^To enable the following instructions|: \w*Warning: |^\s+(warnings\.warn|\[\[)"
    r"|^Current thread |^Thread 0x"
)
"""Lines that say nothing about an end, though they may be the last ones."""
_PREFIX = re.compile(
    r"^([EFWI]\d{4} [\d:.]+ +\d+ |\d{4}-\d\d-\d\d [\d:.]+: [EFWI] )\S+:\d+\] |^(\w+\.)+(?=\w+(Error|Exception)\b)"
)
"""Words that TensorFlow writes before a message: level, time, thread and source, or the module of an exception."""
_LAST_WORDS = "its last words"
_NODE = re.compile(r"\{\{function_node [^}]*\}\} ?")
_FROM_WITHIN = frozenset(
    {
        TaskSignal.SIGINT,
        TaskSignal.SIGABRT,
        TaskSignal.SIGSEGV,
        TaskSignal.SIGBUS,
        TaskSignal.SIGILL,
        TaskSignal.SIGFPE,
    }
)
"""Signals that may end a process after an exception: Python's own interrupt, and faults while TensorFlow goes down."""
_ADDRESS = re.compile(r"\bipv(?:4:([\d.]+)|6:(?:%5B|\[)([\da-f:]+)(?:%5D|\])):(\d+)", re.IGNORECASE)
_MOST_OF_LINE = 1000
"""Characters of each end of a line that are searched: each takes some microseconds, and an agent has other work."""
_TASK = re.compile(r"/job:(\w+)/(?:replica:\d+/)?task:(\d+)")


@dataclass(frozen=True, slots=True)
class Clue:
    """A line of a log that explains an end."""

    kind: str
    words: str
    """The kind in the words of a sentence; empty where the line itself says it."""
    line: str
    """The line, or an exception as `uncaught_exception` tells it."""

    @property
    def message(self) -> str:
        """Message of the line, without the log's prefix."""
        return _NODE.sub("", _PREFIX.sub("", self.line))

    @property
    def is_own(self) -> bool:
        """True for a failure of the program itself, as TensorFlow raises none for a lost peer."""
        if self.kind == EXCEPTION:
            return not _FROM_TENSORFLOW.match(self.line)
        return self.kind not in (PEER, LAST_WORDS)

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


def find_clue(lines: Sequence[str], code: int | None = None, ended_by: int | None = None) -> Clue | None:
    """Return the probe's own clue, else an uncaught exception of the program's own.

    Without these, return the first line with a reason of its own, else the first one about a peer's death, else an
    exception that TensorFlow raises where a peer is gone; of a program that chose its exit `code`, else the last line.
    None if there is no such line. A program that was `ended_by` a signal from outside did not end of an exception: one
    at the end of its log counts as its last words.
    """
    lines, is_last = [STYLE.sub("", line) for line in lines], not _may_write_on(code, ended_by)
    if explained := [line.strip() for line in _apart(lines) if line.startswith(EXPLAINED)]:
        return Clue("explained", "the reason is known", explained[-1])
    text = uncaught_exception(lines, is_last)
    raised = None if text is None else _of_kind(text, (*ANYWHERE, *OF_THE_LAST)) or Clue(EXCEPTION, "", text)
    if raised is not None and ended_by is not None and ended_by not in _FROM_WITHIN and raised.kind != PEER:
        raised = Clue(LAST_WORDS, _LAST_WORDS, raised.line)
    if raised is not None and raised.is_own:
        return raised
    clues = [clue for line in _joined(lines) if not _NOISE.search(line) and (clue := _of_kind(line.strip(), ANYWHERE))]
    own = next((clue for clue in clues if clue.kind != PEER), None)
    return own or next(iter(clues), raised) or (_last_line(lines) if code else None)


def _may_write_on(code: int | None, ended_by: int | None) -> bool:
    """Decide whether Python may have ended of an exception by itself; then its message may have many lines."""
    return code in (None, 1) if ended_by is None else ended_by in _FROM_WITHIN


def _last_line(lines: Sequence[str]) -> Clue | None:
    """Return the clue of the last line that the program wrote, None without one."""
    said = [line for line in map(_shown, lines) if not _NOISE.search(line) and not _NOT_LAST.search(line)]
    if not said or said[-1].startswith(HEADER):
        return None
    line = said[-1][:LONGEST]
    kind = next((kind.name for kind in OF_THE_LAST if kind.pattern.search(line)), LAST_WORDS)
    return Clue(kind, _LAST_WORDS, line)


def last_words(
    lines: Sequence[str], code: int | None = None, ended_by: int | None = None, most: int = 8
) -> tuple[str, ...]:
    """Return the end of the last start's log: at most `most` lines, shortened, in which the clue is found again."""
    own = [STYLE.sub("", line) for line in _apart([_ends(line) for line in _of_last_start(lines)])]
    clue = find_clue(own, code, ended_by)
    told = [line for line in own if not _NOISE.search(line)]
    end = [line.rstrip()[: None if line.startswith(EXPLAINED) else LONGEST] for line in told[-most:]]
    if clue is None or find_clue(end, code, ended_by) == clue:
        return tuple(end)
    if uncaught_exception(own, not _may_write_on(code, ended_by)) == clue.line:
        return (*_before_traceback(told)[2 - most :], HEADER, clue.line)
    return (clue.line, *end[1 - most :])


def _ends(line: str) -> str:
    """Return a line, of a longer one its begin and its end: a bar that is drawn anew is one line of megabytes."""
    return line if len(line) <= 2 * _MOST_OF_LINE else f"{line[:_MOST_OF_LINE]} ... {line[-_MOST_OF_LINE:]}"


def _before_traceback(lines: Sequence[str]) -> list[str]:
    """Return what stands before the first traceback."""
    end = next((row for row, line in enumerate(lines) if line.endswith(HEADER)), len(lines))
    return [line.rstrip()[:LONGEST] for line in lines[:end]]


def _shown(line: str) -> str:
    """Return a line as a terminal shows it, which a progress bar writes again and again."""
    return line.rstrip().rpartition("\r")[2].rpartition("\b")[2].strip()


def _joined(lines: Sequence[str]) -> list[str]:
    """Return the lines, with the words of an exception of C++ behind its type."""
    joined: list[str] = []
    for line in lines:
        if joined and line.startswith("  what():") and joined[-1].startswith("terminate called"):
            joined[-1] = f"{joined[-1]}: {line.partition(':')[2].strip()}"
        else:
            joined.append(line)
    return joined


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


def _of_kind(line: str, kinds: Sequence[FailureKind]) -> Clue | None:
    kind = next((kind for kind in kinds if kind.pattern.search(line)), None)
    return None if kind is None else Clue(kind.name, kind.words, line[:LONGEST])
