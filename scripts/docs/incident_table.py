"""Let real clusters have incidents, and print a table of what the console said of each, and what is wrong with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import net_hosts
from incidents import groups
from incidents.catalogue import chosen, incidents
from incidents.runner import run
from table_command import cut, leave_by_exception, read_results, table_parser, table_row, write_results

_SHOWN = 2
"""Faults of an incident that the table shows; FILE has them all."""
_LONGEST, _LONGEST_FAULT = 300, 150
"""Characters of a sentence and of a fault in the table; FILE has all."""
HEAD = "| incident | what happens | the first sentence | told as it is |\n| --- | --- | --- | --- |"


def main() -> int:
    """Print a row for each incident as it ends; return 1 if one was not told as it is."""
    parser = table_parser(__doc__, "kinds, or incidents")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="copy each cluster's recording and logs to it")
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
    leave_by_exception()
    groups.remove_left()
    print(HEAD)
    wrong = number = 0
    for verdict in run([each for _, each in chosen(flags.names)], flags.keep):
        number, wrong = number + 1, wrong + bool(verdict.faults)
        print(row(verdict.incident.name, verdict.incident.does, verdict.said, verdict.faults), flush=True)
        kept = {"said": verdict.said, "faults": verdict.faults, "series": verdict.series}
        write_results(flags.results, read_results(flags.results) | {verdict.incident.name: kept})
    print(f"{number} incidents, {wrong} not told as they are", file=sys.stderr)
    return min(wrong, 1)


def row(name: str, does: str, said: str, faults: list[str]) -> str:
    """Return a row of the table, with the first faults where it was not told as it is."""
    wrong = "; ".join(cut(fault, _LONGEST_FAULT) for fault in faults[:_SHOWN]) + (
        "; ..." if len(faults) > _SHOWN else ""
    )
    return table_row(name, does, cut(said, _LONGEST), f"**no**: {wrong}" if faults else "yes")


def _kept_rows(path: Path) -> Iterator[str]:
    kept = read_results(path)
    for _, each in incidents():
        if each.name in kept:
            yield row(each.name, each.does, kept[each.name]["said"], kept[each.name]["faults"])


if __name__ == "__main__":
    sys.exit(main())
