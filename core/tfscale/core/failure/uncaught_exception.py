"""Uncaught exceptions in logs: the exception that ended a program, in one line, without frames.

The line tells the innermost reason: of a chain of exceptions, of an exception group, and of TensorFlow's and Keras's
messages, whose first words are the same for every fault. Standard library alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

HEADER = "Traceback (most recent call last):"
LONGEST = 300
"""Characters of a reason that are kept."""
LOGGED = re.compile(
    r"^[EFWI]\d{4} [\d:.]+ +\d+ |^\d{4}-\d\d-\d\d [\d:.]+: [EFWI] |^WARNING: All log messages before absl"
)
"""Begin of a line of TensorFlow's own log."""

_OUTER = 90
"""Characters of the outer exception of a chain: with more the inner one is cut off, with fewer most sentences are."""
_MOST_LINES = 25
"""Lines after an exception that may still be its message: arrays have fewer; a program that goes on after an exception
that it has handled writes more, as a rule."""
_CONNECTORS = {
    "The above exception was the direct cause of the following exception:": "caused by",
    "During handling of the above exception, another exception occurred:": "while handling",
}
_RECORD = re.compile(r"\b(ERROR|WARNING|CRITICAL|FATAL)\b")
"""Level of a script's own log: its records stand before the exceptions that it logs."""
_OF_A_THREAD = re.compile(r"^(Exception in thread |Exception ignored |Task exception was never retrieved)")
_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]*)(?:: ?(.*))?$")
_SYNTAX = re.compile(r"^(SyntaxError|IndentationError|TabError): ")
_FRAME = re.compile(r'^(\s+)File "(.+)", line (\d+)')
STYLE = re.compile(r"(\\x1b|\x1b)\[[\d;]*m")
"""Colours, as a terminal takes them and as a message quotes them."""
_NODE = re.compile(
    r"\{\{function_node [^}]*\}\} ?|\s*\[\[(?:\{\{node[^}]*\}\}|[A-Za-z]\w*)\]\]|\s*\[Op:[^\]]*\](?: name:\s*$)?"
)
_ITERATOR = re.compile(r" with iterator: Iterator::[^ ]+(?=: )")
_ROOT_ERROR = re.compile(r"^ {2}\(\d+\) [A-Z_ ]+: *")
_OF_GRAPH = re.compile(r"^(Detected at node|<stack traces unavailable>|Node: |\d+ root error)|^\s")
_MARGIN = re.compile(r"^ *\| ?|^ +(?=\+)")
_CALLING = "Exception encountered when calling "
_ARGUMENTS = re.compile(r"^(Call a|A)rguments received by ")


@dataclass(frozen=True, slots=True)
class _Traceback:
    """One traceback of a log: its last frame, and the exception with all that follows it."""

    place: str
    name: str
    message: tuple[str, ...]

    def was_handled(self, most: int) -> bool:
        """Decide whether the program wrote on: whether more lines follow than the message may have."""
        return len([line for line in self.message if line.strip()]) > most and not _is_of_tensorflow(self)

    @property
    def reason(self) -> str:
        """Exception in one line."""
        name, message = _innermost(self.name, self.message)
        text = _NODE.sub("", " ".join(message).strip())
        if not text and self.place:
            text = f"({self.place})"
        return f"{_short(name)}: {text}" if text else _short(name)


def uncaught_exception(lines: Sequence[str], is_last: bool = False) -> str | None:
    """Return the exception that ended a program as `Type: reason`, with its cause; None where the log shows none.

    With `is_last` the program did not end of an exception by itself: one counts only where nothing follows it, as where
    a script logs one that it goes on after.
    """
    lines = list(_without_groups([line.rstrip() for line in lines if not LOGGED.match(line)]))
    headers = [row for row, line in enumerate(lines) if _begins_traceback(lines, row)]
    if not headers:
        return next((line[:LONGEST] for line in reversed(lines[-3:]) if _SYNTAX.match(line)), None)
    last = _traceback(lines[headers[-1] + 1 :])
    is_logged = headers[-1] > 0 and bool(_RECORD.search(lines[headers[-1] - 1]))
    if last is None or last.was_handled(1 if is_last or is_logged else _MOST_LINES):
        return None
    first, word = _first_of_chain(lines, headers)
    if first is None or first.reason == last.reason:
        return last.reason[:LONGEST]
    return f"{shortened(last.reason, _OUTER)}, {word} {first.reason}"[:LONGEST]


def shortened(text: str, most: int) -> str:
    """Return a text of at most `most` characters and three dots."""
    return text if len(text) <= most else f"{text[:most].rstrip()}..."


def _begins_traceback(lines: Sequence[str], row: int) -> bool:
    """Decide whether a traceback of the main thread begins in a row; one within a message has an empty next line."""
    is_header = lines[row].endswith(HEADER) and not lines[row].startswith(" ")
    is_of_message = row + 1 < len(lines) and not lines[row + 1]
    return is_header and not is_of_message and not (row and _OF_A_THREAD.match(lines[row - 1]))


def _first_of_chain(lines: Sequence[str], headers: Sequence[int]) -> tuple[_Traceback | None, str]:
    """Return the exception with which the last one's chain began, and how both are connected."""
    first, word = None, ""
    for row, after in zip(reversed(headers[:-1]), reversed(headers[1:]), strict=True):
        between = [line for line in lines[row:after] if line]
        if not between or between[-1] not in _CONNECTORS:
            break
        word = word or _CONNECTORS[between[-1]]
        first = _traceback([line for line in lines[row + 1 : after] if line not in _CONNECTORS]) or first
    return first, word


def _traceback(lines: Sequence[str]) -> _Traceback | None:
    """Return the traceback whose header stands before these lines; None where no exception follows."""
    place = ""
    for row, line in enumerate(lines):
        if frame := _FRAME.match(line):
            source = lines[row + 1] if row + 1 < len(lines) and lines[row + 1].startswith(frame[1] + " ") else ""
            place = ": ".join(filter(None, (f"{frame[2].rpartition('/')[2]}, line {frame[3]}", source.strip())))
        elif line and not line.startswith(" "):
            raised = _EXCEPTION.match(line)
            message = [*([raised[2]] if raised and raised[2] else []), *lines[row + 1 :]] if raised else []
            return _Traceback(place, raised[1], tuple(message)) if raised else None
    return None


def _is_of_tensorflow(traceback: _Traceback) -> bool:
    first = traceback.message[0]
    return first.startswith(("Graph execution error:", "in user code:", _CALLING)) or "errors_impl." in traceback.name


def _innermost(name: str, message: Sequence[str]) -> tuple[str, list[str]]:
    """Return type and lines of the reason in a message that TensorFlow or Keras has wrapped around it."""
    message = [STYLE.sub("", line) for line in message]
    first = message[0] if message else ""
    if HEADER in message and (raised := _of_python_within(message)):
        return raised
    if first.startswith("Graph execution error:"):
        return name, _of_graph(message[1:])
    if first.startswith("in user code:"):
        return _of_user_code(name, message[1:])
    if _CALLING in first:
        return _of_layer(name, message)
    return name, _paragraph(message)


def _of_python_within(message: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return the exception of a Python function that TensorFlow called: its traceback has empty lines in it."""
    lines = [line for line in message[message.index(HEADER) :] if line.strip() and not line.startswith("\t")]
    text = uncaught_exception(lines)
    name, colon, rest = (text or "").partition(": ")
    return (name, [rest] * bool(colon)) if name else None


def _of_graph(message: Sequence[str]) -> list[str]:
    """Return the first line that is neither about the node nor a frame."""
    lines = [_ROOT_ERROR.sub("", line) for line in message]
    told = [_ITERATOR.sub("", line) for line in lines if line and not _OF_GRAPH.match(line)]
    return told[:1]


def _of_user_code(name: str, message: Sequence[str]) -> tuple[str, list[str]]:
    """Return what follows the last frame of AutoGraph's traceback, which is indented."""
    frames = [(row, frame[1]) for row, line in enumerate(message) if (frame := _FRAME.match(line))]
    row, margin = frames[-1] if frames else (-1, "")
    rest = [line.removeprefix(margin) for line in message[row + 1 :]]
    rest = rest[next((at for at, line in enumerate(rest) if line and not line.startswith(" ")), len(rest)) :]
    raised = _EXCEPTION.match(rest[0]) if rest else None
    return _innermost(raised[1], [raised[2] or "", *rest[1:]]) if raised else (name, _paragraph(rest))


def _of_layer(name: str, message: Sequence[str]) -> tuple[str, list[str]]:
    """Return what stands between Keras's words about the layer and those about its arguments."""
    # A KeyError shows its text as Python writes it.
    lines = [part for line in message for part in line.strip("\"'").split("\\n")]
    end = next((row for row, line in enumerate(lines) if _ARGUMENTS.match(line)), len(lines))
    inner = next((row for row in range(end) if lines[row].endswith("Error encountered:")), 0)
    return _innermost(name, [line for line in lines[inner + 1 : end] if line] or lines[:1])


def _paragraph(message: Sequence[str]) -> list[str]:
    """Return the lines before the first empty one."""
    lines = list(message)
    while lines and not lines[0].strip():
        del lines[0]
    end = next((row for row, line in enumerate(lines) if not line.strip()), len(lines))
    # A worker process's traceback is quoted in that of its parent.
    return [line.strip() for line in lines[:end] if line != '"""']


def _short(name: str) -> str:
    """Return an exception's name without its module; `struct.error` keeps it."""
    last = name.rpartition(".")[2]
    return last if last[:1].isupper() else name


def _without_groups(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines, with the drawing of an exception group replaced by a traceback whose message has its parts."""
    drawn: list[str] = []
    for line in lines:
        if line.endswith(f"+ Exception Group {HEADER}") or (drawn and line.lstrip()[:1] in ("|", "+")):
            drawn.append(_MARGIN.sub("", line))
            continue
        yield from _group(drawn)
        drawn = []
        yield line
    yield from _group(drawn)


def _group(drawn: Sequence[str]) -> list[str]:
    """Return the traceback of a drawn exception group: its own exception, and the first two in it."""
    raised = [line for line in drawn if _EXCEPTION.match(line)]
    parts = [row for row, line in enumerate(drawn) if line.startswith("+-") and line.rstrip("-")[-1:] == " "]
    if not raised:
        return []
    inner = [next((line for line in drawn[row + 1 :] if line in raised), "") for row in parts]
    return [HEADER, ": ".join([raised[0], "; ".join(dict.fromkeys(filter(None, inner[:2])))])]
