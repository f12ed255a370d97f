"""Parts of the input pipeline that `--input` asks for, read without TensorFlow: `shuffle=1000,map=4,work=50,cache`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

AUTO = -1
"""Number that tf.data chooses and changes by itself: `tf.data.AUTOTUNE`."""
AUTO_SHARD = ("auto", "data", "off")
FLAG = "--input"
_LEAST = {"shuffle": 1, "map": 1, "work": 1, "prefetch": 1}
_WITH_AUTO = ("map", "prefetch")
_ALL = "shuffle=N, map=N|auto, work=N, cache, prefetch=N|auto, auto-shard=auto|data|off"


@dataclass(frozen=True, slots=True)
class InputParts:
    """Parts of one input pipeline; what is not asked for is not in it."""

    shuffle: int = 0
    """Examples among which the next one is drawn."""
    map: int = 0
    """Examples that are worked on at the same time."""
    work: int = 0
    """Products of two 64 x 64 matrices that the map computes for each example."""
    cache: bool = False
    prefetch: int = 0
    """Batches that are made ahead of the step."""
    auto_shard: str | None = None
    """Policy by which the workers share one dataset; None: each worker makes its own share."""


USUAL = InputParts(shuffle=10_000, prefetch=2)
"""Parts of a run that asks for none."""


def parse_input(text: str | None, strategy: str) -> InputParts:
    """Return the parts that a text asks for. Raises ValueError that says what is wrong with it."""
    if text is None:
        return USUAL
    parts: dict[str, int | bool | str] = {}
    for name, value in _read(text):
        if name in parts:
            raise ValueError(f"{FLAG} {text}: {name.replace('_', '-')} stands there twice")
        parts[name] = value
    read = InputParts(**parts)  # type: ignore[arg-type]
    if bool(read.map) != bool(read.work):
        raise ValueError(f"{FLAG} {text}: map and work need each other, for example map=4,work=50")
    if read.auto_shard and strategy != "multi-worker":
        raise ValueError(f"{FLAG} {text}: auto-shard: only workers of multi-worker share one dataset, not {strategy}")
    return read


def _read(text: str) -> Iterator[tuple[str, int | bool | str]]:
    """Yield each part's name as InputParts has it, and its value."""
    for word in text.split(","):
        name, equals, value = word.partition("=")
        if name == "cache" and not equals:
            yield name, True
        elif name in _LEAST and equals:
            yield name, _number(name, value)
        elif name == "auto-shard" and equals:
            yield "auto_shard", _policy(value)
        else:
            raise ValueError(f"{FLAG}: there is no part {word!r}: use {_ALL}")


def _number(name: str, value: str) -> int:
    if value == "auto" and name in _WITH_AUTO:
        return AUTO
    if not (value.isascii() and value.isdecimal()) or int(value) < _LEAST[name]:
        allowed = " or auto" if name in _WITH_AUTO else ""
        raise ValueError(f"{FLAG} {name}={value}: use a whole number from {_LEAST[name]} on{allowed}")
    return int(value)


def _policy(value: str) -> str:
    if value == "file":
        raise ValueError(f"{FLAG} auto-shard=file: the programs' examples are arrays and in no files; use data")
    if value not in AUTO_SHARD:
        raise ValueError(f"{FLAG} auto-shard={value}: use one of {', '.join(AUTO_SHARD)}")
    return value
