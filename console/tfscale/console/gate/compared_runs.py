"""Runs of a setting, read from what `tfscale-train compare --json` has written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tfscale.console.gate.gated_run import STEP, GatedRun
from tfscale.core.errors import UsageError

COMPARED = ".json"
"""Ending of such a file, and of the result of a program."""


def is_comparison(path: Path) -> bool:
    """Decide whether a file is one of a comparison. Raises UsageError where it cannot be read."""
    return path.suffix == COMPARED and isinstance(_document(path), dict) and "settings" in _document(path)


def compared_runs(path: Path, setting: str | None) -> list[GatedRun]:
    """Return the runs of a setting, those of the base where none is named. Raises UsageError."""
    try:
        document = _document(path)
        settings = {each["setting"]: each for each in document["settings"]}
        chosen = settings[setting if setting is not None else next(iter(settings))]
        runs = [_run(path, document, chosen, run) for run in chosen["runs"] if not run["reason"]]
    except KeyError as error:
        if error.args[0] != setting:
            raise UsageError(f"{path}: is no comparison that tfscale-train compare --json has written") from None
        raise UsageError(f"{path}: has no setting {setting}; it has {', '.join(settings)}") from None
    except (ValueError, TypeError, AttributeError, StopIteration):
        raise UsageError(f"{path}: is no comparison that tfscale-train compare --json has written") from None
    if not runs:
        raise UsageError(f"{path}: no run of {chosen['setting']} was measured: {chosen.get('reason')}")
    return runs


def _document(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        return None


def _run(path: Path, document: Mapping[str, Any], setting: Mapping[str, Any], run: Mapping[str, Any]) -> GatedRun:
    facts = {name: value for name, value in _facts(document, setting) if value}
    facts |= {name: f"{value}" for name, value in run["facts"].items()}
    seconds = {(worker, STEP): time for worker, time in run["workers"].items()}
    lead = min(run["workers"])
    seconds |= {(lead, phase): time for phase, time in run["phases"].items()}
    return GatedRun(path, facts, seconds)


def _facts(document: Mapping[str, Any], setting: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "command", " ".join(setting["command"])
    yield "files", ", ".join(setting["files"])
    yield "settings", " ".join(f"{name}={value}" for name, value in setting["values"].items())
    yield "tasks", f"{setting['tasks']}"
    yield "tfscale", f"{document['tfscale']}"
    yield "cores", f"{document['cores']}"
