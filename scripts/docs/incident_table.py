"""Let real clusters have incidents, and print a table of what the console said of each, and what is wrong with it."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import net_hosts
from incidents import groups
from incidents.catalogue import chosen, incidents
from incidents.judge import Verdict
from incidents.runner import run

_SHOWN = 2
"""Faults of an incident that the table shows; FILE has them all."""
HEAD = "| incident | what happens | the first sentence | told as it is |\n| --- | --- | --- | --- |"


def main() -> int:
    """Print a row for each incident as it ends; return 1 if one was not told as it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="kind, or incident; default: all")
    parser.add_argument("--list", action="store_true", help="only name them")
    parser.add_argument("--results", type=Path, metavar="FILE", help="keep what was said, also that of earlier runs")
    parser.add_argument("--markdown", action="store_true", help="run nothing: the table of FILE")
    flags = parser.parse_args()
    if flags.list:
        print(*(f"{kind}: {each.name}" for kind, each in chosen(flags.names)), sep="\n")
        return 0
    if flags.markdown:
        print(HEAD, *_kept_rows(flags.results), sep="\n")
        return 0
    if reason := net_hosts.missing():
        parser.error(reason)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    groups.remove_left()
    print(HEAD)
    wrong = number = 0
    for verdict in run([each for _, each in chosen(flags.names)]):
        number, wrong = number + 1, wrong + bool(verdict.faults)
        print(row(verdict.incident.name, verdict.incident.does, verdict.said, verdict.faults), flush=True)
        if flags.results:
            _keep(flags.results, verdict)
    print(f"{number} incidents, {wrong} not told as they are", file=sys.stderr)
    return min(wrong, 1)


def row(name: str, does: str, said: str, faults: list[str]) -> str:
    """Return a row of the table, with the first faults where it was not told as it is."""
    wrong = "; ".join(_cut(fault) for fault in faults[:_SHOWN]) + ("; ..." if len(faults) > _SHOWN else "")
    cells = (name, does, _cut(said, 300), f"**no**: {wrong}" if faults else "yes")
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _cut(text: str, length: int = 150) -> str:
    return text if len(text) <= length else f"{text[:length]}..."


def _keep(path: Path, verdict: Verdict) -> None:
    kept = _read(path)
    kept[verdict.incident.name] = {"said": verdict.said, "faults": verdict.faults, "series": verdict.series}
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}


def _kept_rows(path: Path) -> Iterator[str]:
    kept = _read(path)
    for _, each in incidents():
        if each.name in kept:
            yield row(each.name, each.does, kept[each.name]["said"], kept[each.name]["faults"])


if __name__ == "__main__":
    sys.exit(main())
