"""Let faults happen to real agents with tasks that train, and print what was expected of each and what came."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from faults.catalogue import chosen, faults
from faults.fault import Fault
from faults.judge import Verdict, judge
from table_command import cut, leave_by_exception, table_parser, table_row

HEAD = """\
| fault | expected | seen | steps lost | after (s) | first sentence 3 s later | as expected |
| --- | --- | --- | --- | --- | --- | --- |"""
_LONGEST = 220
"""Characters of a cell; `--json` has all."""
RESULTS = Path(__file__).parents[2] / "tests/e2e/faults/results.json"
"""Newest result of each fault, a line each."""


def main() -> int:
    """Print a row for each fault as it has happened; return 1 if one is not as expected."""
    parser = table_parser(__doc__, "words that the kind and name of a fault hold", RESULTS)
    parser.add_argument("--json", action="store_true", help="a line of JSON for each instead of the table")
    parser.add_argument("--rest", action="store_true", help=f"only those that have no result in {RESULTS.name}")
    parser.add_argument("--markdown", action="store_true", help="run nothing: the table of the kept results")
    parser.add_argument("--restarts", type=int, default=100, metavar="N", help="restarts in a row (100)")
    parser.add_argument("--inputs", type=int, default=100_000, metavar="N", help="random inputs (100000)")
    flags = parser.parse_args()
    os.environ |= {"FAULTS_RESTARTS": str(flags.restarts), "FAULTS_INPUTS": str(flags.inputs)}
    kept = _by_name(RESULTS) if flags.rest else {}
    rows = [(kind, fault) for kind, fault in chosen(flags.names) if _name(kind, fault) not in kept]
    if flags.list:
        print(*(_name(kind, fault) for kind, fault in rows), sep="\n")
        return 0
    if flags.markdown:
        print(HEAD, *_kept_rows(_by_name(flags.results or RESULTS)), sep="\n")
        return 0
    leave_by_exception()
    return _run(rows, flags.json, flags.results)


def _run(rows: Sequence[tuple[str, Fault]], as_json: bool, kept: Path | None) -> int:
    if not as_json:
        print(HEAD)
    number = wrong = skipped = 0
    for (kind, _), verdict in zip(rows, judge([fault for _, fault in rows]), strict=True):
        record = _record(kind, verdict)
        print(json.dumps(record, ensure_ascii=False) if as_json else _row(record), flush=True)
        number, wrong, skipped = number + 1, wrong + bool(record["faults"]), skipped + bool(record["skipped"])
        if kept:
            _write(kept, _by_name(kept) | {record["fault"]: record})
    print(f"{number} faults, {wrong} not as expected, {skipped} skipped", file=sys.stderr)
    return min(wrong, 1)


def _name(kind: str, fault: Fault) -> str:
    return f"{kind}: {fault.name}"


def _record(kind: str, verdict: Verdict) -> dict[str, Any]:
    return {
        "fault": _name(kind, verdict.fault),
        "at": datetime.now(UTC).date().isoformat(),
        "does": verdict.fault.does,
        "expected": verdict.fault.expected.words,
        "seen": verdict.seen,
        "lost": verdict.lost,
        "recovered": None if verdict.recovered is None else round(verdict.recovered, 1),
        "sentence": verdict.sentence,
        "faults": verdict.faults,
        "skipped": verdict.skipped,
    }


def _row(record: dict[str, Any]) -> str:
    seen = f"skipped: {record['skipped']}" if record["skipped"] else record["seen"]
    after = "-" if record["recovered"] is None else str(record["recovered"])
    fits = "-" if record["skipped"] else f"**no**: {'; '.join(record['faults'])}" if record["faults"] else "yes"
    cells = (record["does"], record["expected"], seen, record["lost"], after, record["sentence"], fits)
    return table_row(*(cut(" ".join(text.split()), _LONGEST) for text in cells))


def _by_name(path: Path) -> dict[str, Any]:
    return {record["fault"]: record for record in json.loads(path.read_text())} if path.exists() else {}


def _write(path: Path, kept: dict[str, Any]) -> None:
    """Write the results in the order of the faults, without those of faults that are gone."""
    ordered = [kept[name] for name in (_name(kind, fault) for kind, fault in faults()) if name in kept]
    lines = ",\n".join(json.dumps(record, ensure_ascii=False) for record in ordered)
    path.write_text(f"[\n{lines}\n]\n")


def _kept_rows(kept: dict[str, Any]) -> list[str]:
    """Return a row for each fault; one that was not run is said to be so."""
    rows = []
    for kind, fault in faults():
        record = kept.get(_name(kind, fault), _record(kind, Verdict(fault, skipped="not run")))
        rows.append(_row(record))
    return rows


if __name__ == "__main__":
    sys.exit(main())
