"""Names of keys: as they are printed on a keyboard, and as Textual names them."""

from __future__ import annotations

from textual.keys import key_to_character

_PRINTED = {
    "escape": "esc",
    "pageup": "page up",
    "pagedown": "page down",
    "slash": "/",
    "plus": "+",
    "minus": "-",
    "colon": ":",
    "question_mark": "?",
    "exclamation_mark": "!",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
}
_NAMES = {printed: name for name, printed in _PRINTED.items()}


def key_text(key: str) -> str:
    """Return a key as it is printed on the keyboard, in ASCII."""
    character = key_to_character(key)
    return _PRINTED.get(key) or (character if character and character.isprintable() and character != " " else key)


def key_name(text: str) -> str:
    """Return Textual's name of a key that is printed as `text`."""
    return _NAMES.get(text, text)
