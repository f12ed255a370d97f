"""Enums whose members are texts."""

from __future__ import annotations

from enum import Enum


class TextEnum(str, Enum):
    """Enum whose members are texts, as `enum.StrEnum` is, which Python 3.10 in a script's environment lacks."""

    __str__ = str.__str__
