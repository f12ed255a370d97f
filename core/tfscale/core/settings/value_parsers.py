"""Text of a setting as its value. Each parser raises UsageError that begins with the place of the text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfscale.core.errors import UsageError

Parse = Callable[[str, str], Any]
"""Function of a text and its place (a flag, a variable, a key of a file)."""

SIZE_UNITS = "KB, MB, GB, TB: powers of 1000; K, M, G, T, KiB, MiB, GiB, TiB: powers of 1024"
_digits = re.compile(r"[0-9]{1,18}").fullmatch
"""Match of a whole number that no program chokes on."""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(I?B)?|B)?", re.IGNORECASE)


def any_text(text: str, _place: str) -> str:
    return text


def path(text: str, _place: str) -> Path:
    return Path(text).expanduser()


def switch(text: str, place: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise UsageError(f"{place}: {text!r} is neither true nor false")


def positive_number(text: str, place: str) -> float:
    """Return a number above 0, such as seconds."""
    if not 0 < (value := _number(text)) < math.inf:
        raise UsageError(f"{place}: {text!r} is not a number above 0")
    return value


def number_from_0(text: str, place: str) -> float:
    """Return a number of 0 or more, such as seconds."""
    if not 0 <= (value := _number(text)) < math.inf:
        raise UsageError(f"{place}: {text!r} is not a number from 0 on")
    return value


def share(text: str, place: str) -> float:
    """Return a share of `3%` or `0.03`, which must be above 0: of all or more it has to be said in percent."""
    number = _number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 < number < math.inf:
        raise UsageError(f"{place}: {text!r} is not a share above 0: write for example 3%")
    if number >= 1 and not text.endswith("%"):
        raise UsageError(f"{place}: {text!r} would be {100 * number:g}%: write {text}%, or a fraction below 1")
    return number


def words(text: str, _place: str) -> tuple[str, ...]:
    """Return the words between commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def count(text: str, place: str) -> int:
    """Return a whole number above 0."""
    if _digits(text) is None or int(text) < 1:
        raise UsageError(f"{place}: {text!r} is not a whole number above 0")
    return int(text)


def count_from_0(text: str, place: str) -> int:
    """Return a whole number of 0 or more."""
    if _digits(text) is None:
        raise UsageError(f"{place}: {text!r} is not a whole number from 0 on")
    return int(text)


def at_most(most: int, parse: Parse) -> Parse:
    """Return a parser whose numbers must not be above `most`."""

    def parse_bounded(text: str, place: str) -> Any:
        if (value := parse(text, place)) > most:
            raise UsageError(f"{place}: {text!r} is above {most}, the most that is allowed")
        return value

    return parse_bounded


def size(least: int = 1) -> Parse:
    """Return a parser of bytes, which must be `least` or more: `4096`, `100MB` (10^8), `64M` and `64MiB` (2^26)."""

    def parse(text: str, place: str) -> int:
        match = _SIZE.fullmatch(text.strip())
        if match is None:
            raise UsageError(f"{place}: {text!r} is not a size: write for example 100MB (10^8 bytes) or 64M (2^26)")
        number, prefix, suffix = match.groups()
        base = 1000 if (suffix or "").upper() == "B" else 1024
        value = int(float(number) * base ** ("KMGT".index(prefix.upper()) + 1 if prefix else 0))
        if value < least:
            raise UsageError(f"{place}: {text!r} is too small: it must be at least {least} bytes")
        return value

    return parse


def one_of(*names: str) -> Parse:
    """Return a parser of one of a few words."""

    def parse(text: str, place: str) -> str:
        if text not in names:
            raise UsageError(f"{place}: {text!r} is none of {', '.join(names)}")
        return text

    return parse


def placed(parse: Callable[[str], Any]) -> Parse:
    """Return a parser that puts the place before the message of `parse`, a function of the text alone."""

    def parse_placed(text: str, place: str) -> Any:
        try:
            return parse(text)
        except UsageError as error:
            raise UsageError(f"{place}: {error}") from None

    return parse_placed


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
