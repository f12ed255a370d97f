"""Each setting of the console: how its words become a value, and what is said where they cannot."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfscale.console.engine.stop_condition import CONDITIONS
from tfscale.console.export.outputs import FORMATS
from tfscale.console.export.rows import PARTS
from tfscale.console.sources.faults import EXAMPLE, Fault
from tfscale.core.cluster import parse_address
from tfscale.core.errors import UsageError

Parse = Callable[[str, str], Any]
"""The words and where they are from, as a value. Raises UsageError that begins with where."""


def _text(text: str, _where: str) -> str:
    return text


def _path(text: str, _where: str) -> Path:
    return Path(text).expanduser()


def _bool(text: str, where: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise UsageError(f"{where}: {text!r} is neither true nor false")


def _positive(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UsageError(f"{where}: {text!r} is not a number above 0")
    return value


def _count(text: str, where: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{where}: {text!r} is not a whole number above 0")
    return int(text)


_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def _size(text: str, where: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", text.strip().upper())
    if match is None or (size := int(float(match[1]) * _UNITS[match[2]])) < 1:
        raise UsageError(f"{where}: {text!r} is not a size: write for example 100MB")
    return size


def _one_of(*names: str) -> Parse:
    def parse(text: str, where: str) -> str:
        if text not in names:
            raise UsageError(f"{where}: {text!r} is none of {', '.join(names)}")
        return text

    return parse


def _conditions(text: str, where: str) -> tuple[str, ...]:
    return tuple(_one_of(*CONDITIONS)(each.strip(), where) for each in text.split(","))


def _fault(text: str, where: str) -> Fault:
    try:
        return Fault.parse(text)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def _url(text: str, where: str) -> str:
    if not re.match(r"https?://[^\s/]+", text):
        raise UsageError(f"{where}: {text!r} is no web address: write http://... or https://...")
    return text


@dataclass(frozen=True, slots=True)
class Option:
    """How the words of one setting become its value, and what `--help` says of it."""

    parse: Parse
    metavar: str
    help: str
    is_list: bool = False
    otherwise: str | None = None
    """What the flag alone means; None: it needs words."""

    @property
    def is_switch(self) -> bool:
        return self.parse is _bool


SERVED = "127.0.0.1:8571"
"""Where a browser finds the console unless told otherwise."""

OPTIONS: dict[str, Option] = {
    "cluster": Option(_path, "FILE", "the cluster file, TOML or JSON; left out: TF_CONFIG in the environment"),
    "agent": Option(parse_address, "HOST:PORT", "instead of the cluster file: any one agent, which knows the others"),
    "simulate": Option(_count, "N", "instead of a cluster: N simulated workers"),
    "fault": Option(_fault, "FAULT", f"with --simulate, any number of times: for example {EXAMPLE}", is_list=True),
    "rate": Option(_positive, "R", "with --simulate: steps a second (10)"),
    "insecure": Option(_bool, "", "reach agents beyond this host without TLS"),
    "ca": Option(_path, "FILE", "with --agent: PEM file of the authority, for TLS"),
    "certificate": Option(_path, "FILE", "with --agent: own PEM certificate"),
    "key": Option(_path, "FILE", "with --agent: its PEM key"),
    "record": Option(_path, "FILE", "record what is watched to a new file, for replay and export"),
    "read_only": Option(_bool, "", "only look: no key and no command that reaches into a task"),
    "serve": Option(parse_address, "HOST:PORT", f"the screen in a browser, there ({SERVED})", otherwise=SERVED),
    "yes": Option(_bool, "", "with restart, stop and start: do it without asking"),
    "headless": Option(_bool, "", "no screen: one JSON object a line, to stdout"),
    "out": Option(_path, "FILE", "without a screen: write there instead of stdout"),
    "format": Option(_one_of(*FORMATS), "FORMAT", f"without a screen: {', '.join(FORMATS)} (jsonl)"),
    "only": Option(_one_of(*PARTS), "PART", f"without a screen: only {', '.join(PARTS)}"),
    "rotate": Option(_size, "SIZE", "with --out: begin a new file at this size, for example 100MB"),
    "keep": Option(_count, "N", "with --rotate: files kept besides the newest (5)"),
    "once": Option(_bool, "", "one snapshot as JSON; exit status 0 healthy, 1 nothing collected, 3 unhealthy"),
    "until": Option(_conditions, "WHAT", f"end by itself once it is {', '.join(CONDITIONS)}; several with commas"),
    "seconds": Option(_positive, "S", "end by itself S seconds after the first step of all training tasks"),
    "on_event": Option(_text, "COMMAND", "without a screen: run it for each event that matters, JSON on its stdin"),
    "webhook": Option(_url, "URL", "without a screen: post each event that matters there, as JSON"),
    "theme": Option(
        _one_of("dark", "light", "contrast"), "NAME", "colours of the screen: dark, light, contrast (as last time)"
    ),
    "ascii": Option(_bool, "", "draw with ASCII only; by itself where the locale is not UTF-8"),
}
