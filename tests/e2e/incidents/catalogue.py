"""All incidents, in the order of the table."""

from __future__ import annotations

import importlib

from incidents.incident import Incident

KINDS = (
    "stopped",
    "killed",
    "errors",
    "inputs",
    "disks",
    "resources",
    "links",
    "starts",
    "servers",
    "clocks",
    "well",
    "twice",
)
"""Modules of `kinds`, each with its incidents as `INCIDENTS`."""


def incidents() -> list[tuple[str, Incident]]:
    """Return each incident with its kind."""
    modules = ((kind, importlib.import_module(f"incidents.kinds.{kind}")) for kind in KINDS)
    return [(kind, incident) for kind, module in modules for incident in module.INCIDENTS]


def chosen(names: list[str]) -> list[tuple[str, Incident]]:
    """Return those whose kind or name is among the names; all where there is none."""
    return [(kind, each) for kind, each in incidents() if not names or {kind, each.name} & set(names)]
