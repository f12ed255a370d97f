"""Long lines, broken between words, with what follows indented."""

from __future__ import annotations

from rich.text import Text

_NARROWEST = 16


def hanging(text: Text, width: int, indent: int, most: int | None = None) -> list[Text]:
    """The text in lines of at most `width` cells, all but the first indented.

    No more than `most` lines: the last then ends in an ellipsis. Where there is no room to indent, one line.
    """
    if width < indent + _NARROWEST:
        most = 1
    lines: list[Text] = []
    edge = ""
    while len(edge) + text.cell_len > width and len(lines) + 1 != most:
        room = width - len(edge)
        first = 0 if edge else indent
        # Between facts rather than inside of one.
        at = text.plain.rfind("  ", first + room // 2, room + 2)
        at = at if at > 0 else text.plain.rfind(" ", first, room + 1)
        head, text = text.divide([at if at > 0 else room])
        lines.append(Text(edge) + head)
        text = text[len(text.plain) - len(text.plain.lstrip()) :]
        edge = " " * indent
    last = Text(edge) + text
    last.truncate(width, overflow="ellipsis")
    return [_unbroken(line) for line in (*lines, last)]


def _unbroken(line: Text) -> Text:
    line.rstrip()
    line.no_wrap = True
    return line
