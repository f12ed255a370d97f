"""Hosts in few words, as Slurm and clush write them: `host[1-4]`, `n[01-16,20]-ib`, `10.0.0.[2-3]`, `a,b:2222`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from tfscale.core.cluster.cluster_spec import parse_address
from tfscale.core.errors import UsageError

_MOST = 10_000
_COMMA = re.compile(r",(?![^\[\]]*\])")
"""Comma outside of brackets."""
_GROUP = re.compile(r"\[([0-9,-]*)\]")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_WITH_PORT = re.compile(r".*[^:]:\d{1,5}|\[.*\]:\d{1,5}")


def hosts(text: str, place: str) -> list[tuple[str, int | None]]:
    """Return each host in `text` with its port, None where it names none. `place` is the flag. Raises UsageError."""
    found: list[tuple[str, int | None]] = []
    for word in _COMMA.split(text):
        for host in _expanded(word.strip(), place):
            has_port = _WITH_PORT.fullmatch(host) is not None
            address = parse_address(host if has_port else f"{host}:1", place)
            found.append((address.host, address.port if has_port else None))
            if len(found) > _MOST:
                raise UsageError(f"{place} {word}: more than {_MOST:,} hosts")
    return found


def _expanded(word: str, place: str) -> Iterator[str]:
    """Yield the hosts of one word."""
    parts = _GROUP.split(word)
    if not word or (":" not in word and set("[]") & set("".join(parts[::2]))):
        raise UsageError(f"{place} {word!r} is no host: write for example host[1-4],host7")
    groups = [[text] if index % 2 == 0 else _numbers(text, word, place) for index, text in enumerate(parts)]
    for chosen in itertools.product(*groups):
        yield "".join(chosen)


def _numbers(group: str, word: str, place: str) -> list[str]:
    """Return the numbers of a group of ranges, with the zeros that the first one of a range begins with."""
    numbers: list[str] = []
    for item in group.split(","):
        match = _RANGE.fullmatch(item)
        first, last = (match[1], match[2] or match[1]) if match else ("1", "0")
        if int(last) < int(first):
            raise UsageError(f"{place} {word}: [{group}] is no range: write for example [1-4] or [01-16,20]")
        if int(last) - int(first) >= _MOST:
            raise UsageError(f"{place} {word}: more than {_MOST:,} hosts")
        numbers += [f"{number:0{len(first)}}" for number in range(int(first), int(last) + 1)]
    return numbers
