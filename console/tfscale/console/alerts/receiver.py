"""Receivers of alerts as a setting names them: addresses that are secrets, and the files that hold them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from tfscale.core.errors import UsageError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://\S+")
_SECRET = 4
"""Least characters of a part of an address that is taken out of a message: shorter ones are words of any sentence."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """Address of a receiver, or `@FILE` with such addresses. Its text has the address without what is secret in it."""

    address: str = field(repr=False)
    place: str
    """Flag, variable, or file and key that gave it."""

    def __str__(self) -> str:
        """Return the name of the file, or the scheme of the address, of a web address with its host."""
        if self.address.startswith("@"):
            return self.address
        scheme, _, rest = self.address.partition("://")
        host = re.split(r"[/?#]", rest)[0].rpartition("@")[2]
        return f"{scheme}://{host}/..." if scheme in ("http", "https") else f"{scheme}://..."

    @property
    def is_exposed(self) -> bool:
        """True where other users of this machine can read the address in the list of its processes."""
        return self.place.startswith("--") and not self.address.startswith("@")


def parse_receiver(text: str, place: str) -> Receiver:
    """Return a receiver. Raises UsageError for what is neither an address nor `@FILE`."""
    if not (len(text) > 1 and text.startswith("@")) and _SCHEME.fullmatch(text) is None:
        raise UsageError(
            f"{place}: an address of a receiver begins as slack:// or https://, or is @FILE with such lines"
        )
    return Receiver(text, place)


def parse_web_address(text: str, place: str) -> Receiver:
    """Return a web address, or the file that has it. Raises UsageError."""
    if not re.match(r"https?://[^\s/]+|@.", text):
        raise UsageError(f"{place}: that is no web address: write http://... or https://..., or @FILE with such a line")
    return Receiver(text, place)


def addresses(receivers: Sequence[Receiver]) -> list[Receiver]:
    """Return the receivers, in place of each file those that it names, one a line. Raises UsageError."""
    found: list[Receiver] = []
    for receiver in receivers:
        found += _in_file(receiver) if receiver.address.startswith("@") else [receiver]
    return found


def _in_file(receiver: Receiver) -> list[Receiver]:
    path = Path(receiver.address[1:]).expanduser()
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"{receiver.place}: {path} cannot be read: {why}") from None
    named = [
        parse_receiver(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line and line[0] not in "#@"
    ]
    if not named:
        raise UsageError(f"{receiver.place}: {path} names no receiver: write one address a line, such as ntfy://topic")
    return named


def without_secrets(text: str, address: str) -> str:
    """Return a text about an address without the parts of it that may be secret."""
    rest = address.partition("://")[2]
    parts = {word for part in re.split(r"[/?#&=:@,]+", rest) for word in (part, unquote(part)) if len(word) >= _SECRET}
    for part in sorted({rest, *parts} - {""}, key=len, reverse=True):
        text = text.replace(part, "...")
    return text
