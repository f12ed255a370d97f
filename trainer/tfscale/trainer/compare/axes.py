"""Axes of a comparison: what is varied, its values, and all settings that these make."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tfscale.core.errors import UsageError

LEFT_OUT = "none"
"""Value of an axis that leaves it as it is without."""
MOST_SETTINGS = 64
_THOUSANDS = {"k": 1_000, "M": 1_000_000}


@dataclass(frozen=True, slots=True)
class Axis:
    """One thing that is varied."""

    name: str
    values: tuple[str, ...]


Setting = dict[str, str]
"""Value of each axis by its name."""


def parse_axes(texts: Sequence[str]) -> list[Axis]:
    """Return the axes of texts such as `batch=32,64`. Raises UsageError."""
    axes = [_parsed(text) for text in texts]
    for axis in axes:
        if [each.name for each in axes].count(axis.name) > 1:
            raise UsageError(f"--set {axis.name}: is given twice; write all values in one")
    return axes


def _parsed(text: str) -> Axis:
    name, equals, values = text.partition("=")
    # Values that have commas themselves, as those of `with`, have semicolons between them.
    words = [word.strip() for word in values.split(";" if ";" in values else ",")]
    if not equals or not re.fullmatch(r"[A-Za-z][\w-]*", name) or not all(words):
        raise UsageError(f"--set {text!r}: write NAME=VALUE,VALUE, for example batch=32,64")
    return Axis(name, tuple(map(_number, words)))


def _number(word: str) -> str:
    """Return `1k` as `1000`, and any other word as it is."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kM])", word)
    return str(round(float(match[1]) * _THOUSANDS[match[2]])) if match else word


def settings_of(axes: Sequence[Axis]) -> list[Setting]:
    """Return all combinations; the first one, of the first values, is the base. Raises UsageError."""
    found = [
        dict(zip((axis.name for axis in axes), values, strict=True))
        for values in itertools.product(*(axis.values for axis in axes))
    ]
    if axes and len(found) < 2:
        name, (value,) = axes[0].name, axes[0].values
        raise UsageError(
            f"there is nothing to compare: --set {name} has one value; the first one is the base, so write "
            f"--set {name}=BASE,{value}"
        )
    if not axes:
        raise UsageError("there is nothing to compare: give --set NAME=VALUE,VALUE, for example --set batch=32,64")
    if len(found) > MOST_SETTINGS:
        raise UsageError(f"--set: these are {len(found)} settings, and at most {MOST_SETTINGS} are compared")
    return found


def names_of(settings: Sequence[Setting], axes: Sequence[Axis]) -> list[str]:
    """Return a name of each setting, by the axes that have several values; a second one of a name has a number."""
    varied = [axis.name for axis in axes if len(axis.values) > 1]
    names = [" ".join(f"{name}={setting[name]}" for name in varied) for setting in settings]
    return [
        f"{name} #{again + 1}" if (again := names[:place].count(name)) else name for place, name in enumerate(names)
    ]
