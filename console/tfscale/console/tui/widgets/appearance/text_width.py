"""Text within a width of cells: cut or filled up, or wrapped with a hanging indent."""

from __future__ import annotations

from rich.text import Text

_NARROWEST = 16


def fit(text: str, width: int, *, right: bool) -> str:
    """Fit the text into exactly `width` cells."""
    if len(text) > width:
        text = _cut(text, width)
    return text.rjust(width) if right else text.ljust(width)


def _cut(text: str, width: int) -> str:
    """Shorten the text to `width` cells with a mark, between words if that keeps most of it."""
    words = text[:width].rpartition(" ")[0].rstrip(" ,:;")
    return (words if len(words) * 2 > width else text[: width - 1]) + "…"


def wrap_hanging(text: Text, width: int, indent: int, limit: int | None = None) -> list[Text]:
    """Break the text into lines of at most `width` cells, and indent all but the first.

    Returns at most `limit` lines, the last cut with an ellipsis; one line if there is no room to indent.
    """
    if width < indent + _NARROWEST:
        limit = 1
    lines: list[Text] = []
    edge = ""
    while len(edge) + text.cell_len > width and len(lines) + 1 != limit:
        room = width - len(edge)
        first = 0 if edge else indent
        # A break at two spaces separates facts, and is better than one inside of a fact.
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
