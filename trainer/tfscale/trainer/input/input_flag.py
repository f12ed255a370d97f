"""Parts of the input pipeline that `--input` asks for, read without TensorFlow: `shuffle=1000,map=4,work=50,cache`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

AUTO = -1
"""Number that tf.data chooses and changes by itself: `tf.data.AUTOTUNE`."""
POLICIES = {"auto-shard": ("auto", "data", "off"), "sharding": ("dynamic", "off")}
FLAG = "--input"
_NUMBERS = ("shuffle", "map", "work", "prefetch", "service")
_WITH_AUTO = ("map", "prefetch")
_MOST = {"shuffle": 2**31 - 1, "map": 1024, "work": 2**31 - 1, "prefetch": 10_000, "service": 64}
"""Largest number of each part: possible threads, batches and processes of a machine, else an int32 of TensorFlow."""
_MOST_DIGITS = 100
ALL_PARTS = (
    "shuffle=N, map=N|auto, work=N, cache, prefetch=N|auto, auto-shard=auto|data|off, service=N, sharding=dynamic|off"
)
_REASONS = {
    "auto-shard=file": "the programs' examples are arrays and in no files; use data",
    "sharding=data": "needs a worker of the service in each training process; use dynamic",
    "sharding=file": "the programs' examples are arrays and in no files; use dynamic",
}


@dataclass(frozen=True, slots=True)
class InputParts:
    """Parts of one input pipeline; a part that the flag does not name is left out."""

    shuffle: int = 0
    """Number of examples from which the next is drawn."""
    map: int = 0
    """Examples that are worked on at the same time."""
    work: int = 0
    """Products of two 64 x 64 matrices that the map computes for each example."""
    cache: bool = False
    prefetch: int = 0
    """Batches that are made ahead of the step."""
    auto_shard: str | None = None
    """Policy by which workers share one dataset; with None each worker makes its own part of the data."""
    service: int = 0
    """Workers of a tf.data service, which make the batches in processes of their own."""
    sharding: str = ""
    """Processing mode of the service: an example to a single one of its workers, or to each."""

    @property
    def asked(self) -> dict[str, str]:
        """Parts of the pipeline: values by name, empty for a part without a value."""
        values = {name.replace("_", "-"): value for name, value in asdict(self).items() if value}
        return {
            name: "" if value is True else "auto" if value == AUTO else str(value) for name, value in values.items()
        }


USUAL = InputParts(shuffle=10_000, prefetch=2)
"""Default pipeline: shuffle among 10,000 examples, prefetch 2 batches."""


def parse_input(text: str | None, strategy: str) -> InputParts:
    """Return the parts in a text. Raises ValueError about a fault in the text."""
    if text is None:
        return USUAL
    parts: dict[str, int | bool | str] = {}
    for name, value in _read(text):
        if name in parts:
            raise ValueError(f"{FLAG} {text}: {name.replace('_', '-')} is given twice")
        parts[name] = value
    read = InputParts(**parts)  # type: ignore[arg-type]
    _check_together(read, text, strategy)
    return replace(read, sharding=read.sharding or "dynamic") if read.service else read


def _check_together(read: InputParts, text: str, strategy: str) -> None:
    if bool(read.map) != bool(read.work):
        raise ValueError(f"{FLAG} {text}: map and work need each other, for example map=4,work=50")
    if read.auto_shard and strategy != "multi-worker":
        raise ValueError(f"{FLAG} {text}: auto-shard: only workers of multi-worker share one dataset, not {strategy}")
    if read.auto_shard and read.service:
        raise ValueError(f"{FLAG} {text}: auto-shard and service: not together, the service shares out the batches")
    if read.sharding and not read.service:
        raise ValueError(f"{FLAG} {text}: sharding is a mode of the service, for example service=2,sharding=off")


def _read(text: str) -> Iterator[tuple[str, int | bool | str]]:
    """Yield each part's name as InputParts has it, and its value."""
    for word in text.split(","):
        name, equals, value = word.partition("=")
        if name == "cache" and not equals:
            yield name, True
        elif name in _NUMBERS and equals:
            yield name, _number(name, value)
        elif name in POLICIES and equals:
            yield name.replace("-", "_"), _policy(name, value)
        else:
            raise ValueError(f"{FLAG}: there is no part {word!r}: use {ALL_PARTS}")


def _number(name: str, value: str) -> int:
    if value == "auto" and name in _WITH_AUTO:
        return AUTO
    if not (value.isascii() and value.isdecimal()) or not value.strip("0"):
        allowed = " or auto" if name in _WITH_AUTO else ""
        raise ValueError(f"{FLAG} {name}={value}: use a whole number from 1 on{allowed}")
    if len(value) > _MOST_DIGITS or int(value) > _MOST[name]:
        raise ValueError(f"{FLAG} {name}={value}: use from 1 to {_MOST[name]}")
    return int(value)


def _policy(name: str, value: str) -> str:
    if value not in POLICIES[name]:
        why = _REASONS.get(f"{name}={value}", f"use one of {', '.join(POLICIES[name])}")
        raise ValueError(f"{FLAG} {name}={value}: {why}")
    return value
