"""Lines that the tests ran, in percent, of each folder of a part.

    .venv/bin/python scripts/ci/folder_coverage.py DATA

Reads the data file of coverage.py. What runs in processes of its own, as the shim and a training do, is not counted.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from coverage import Coverage


def by_folder(report: Path) -> list[tuple[str, int, int]]:
    """Return each folder with the number of its lines that ran, and of all; from a JSON report of coverage.py."""
    ran: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for name, file in json.loads(report.read_text())["files"].items():
        folder = str(Path(name).parent)
        ran[folder] += file["summary"]["covered_lines"]
        lines[folder] += file["summary"]["num_statements"]
    return [(folder, ran[folder], lines[folder]) for folder in sorted(lines) if lines[folder]]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        coverage = Coverage(data_file=sys.argv[1])
        coverage.load()
        coverage.json_report(outfile=f"{folder}/report.json")
        rows = by_folder(Path(folder) / "report.json")
    for name, ran, lines in [*rows, ("all", sum(row[1] for row in rows), sum(row[2] for row in rows))]:
        print(f"{ran / lines:4.0%} of {lines:5} lines  {name}")


if __name__ == "__main__":
    main()
