"""All faults, in the order of the table."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from faults.fault import Fault

KINDS = (
    "signals",
    "moments",
    "restarts",
    "places",
    "files",
    "access",
    "inputs",
    "series",
    "clocks",
    "recovery",
    "placements",
    "trainings",
)
"""Modules of `kinds`, each with its faults as `FAULTS`."""


def faults() -> list[tuple[str, Fault]]:
    """Return each fault with its kind."""
    modules = ((kind, importlib.import_module(f"faults.kinds.{kind}")) for kind in KINDS)
    return [(kind, fault) for kind, module in modules for fault in module.FAULTS]


def chosen(words: Sequence[str]) -> list[tuple[str, Fault]]:
    """Return those whose kind and name hold all the words; all where there is none."""
    return [
        (kind, fault)
        for kind, fault in faults()
        if all(word.lower() in f"{kind}: {fault.name}".lower() for word in words)
    ]
