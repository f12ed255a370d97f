"""`tfscale-console report`: its input and its output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tfscale.console.report.csv_file import read_csv
from tfscale.console.report.formats.html_page import as_html
from tfscale.console.report.formats.report_json import as_json
from tfscale.console.report.formats.report_text import as_text
from tfscale.console.report.reading_progress import ReadingProgress
from tfscale.console.report.report_builder import report_measured, report_recorded, report_runs
from tfscale.console.report.run_file import open_run
from tfscale.console.report.run_report import RunReport
from tfscale.console.settings.options import OPTIONS, REPORT, TABLE
from tfscale.console.settings.written_files import refuse_overwriting
from tfscale.core.errors import UsageError
from tfscale.core.files.whole_file import write_output
from tfscale.core.settings.precedence import choose, flag

_WRITERS: dict[str, Callable[[RunReport], str]] = {"text": as_text, "json": as_json, "html": as_html}
"""Formats of a report."""


def run_report(recordings: Sequence[str], flags: Mapping[str, str], environment: Mapping[str, str]) -> int:
    """Write the report, and return exit status 0, also where something was found. Raises TfscaleError."""
    values = {name: REPORT[name].parse(text, flag(name)) for name, text in flags.items()}
    out: Path | None = values.get("out")
    paths, csv = [Path(name) for name in recordings], values.get("csv")
    if out is not None:
        read = [("the recording", path) for path in paths] + ([("--csv", csv)] if csv else [])
        refuse_overwriting([("--out", out)], read)
    usual = choose(OPTIONS, TABLE, {}, environment).values.get("format")
    # The tables of other commands have formats of their own.
    form = values.get("format", usual if usual in _WRITERS else "text")
    text = _WRITERS[form](_make(paths, csv))
    if out is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return 0
    try:
        write_output(out, text)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}") from None
    return 0


def _make(recordings: Sequence[Path], csv: Path | None) -> RunReport:
    """Return the report. Raises UsageError where a file does not fit."""
    if bool(recordings) == (csv is not None):
        raise UsageError("report: name either a recording or --csv FILE; tfscale-console report --help shows how")
    if csv is not None:
        return report_measured(csv, read_csv(csv))
    runs = [(path, open_run(path, ReadingProgress(path).show)) for path in recordings]
    return report_recorded(*runs[0]) if len(runs) == 1 else report_runs(runs)
