"""`tfscale-console report`: its command line and its output."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

from tfscale.console.report.csv_file import read_csv
from tfscale.console.report.formats.html_page import as_html
from tfscale.console.report.formats.report_json import as_json
from tfscale.console.report.formats.report_text import as_text
from tfscale.console.report.reading_progress import ReadingProgress
from tfscale.console.report.report_builder import report_measured, report_recorded, report_runs
from tfscale.console.report.run_file import open_run
from tfscale.console.report.run_report import RunReport
from tfscale.core.errors import UsageError


class Format(StrEnum):
    """Formats of a report."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


@dataclass(frozen=True, slots=True)
class Request:
    """Request of the command line: recordings, or measurements."""

    recordings: tuple[Path, ...]
    csv: Path | None
    format: Format
    out: Path | None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"report: {message}; report --help shows how")


def parse(arguments: Sequence[str]) -> Request:
    """Return the request. Raises UsageError."""
    parser = _Parser(prog="tfscale-console report", description="Report what happened in a recorded run, and why.")
    add = parser.add_argument
    add(
        "recordings",
        nargs="*",
        metavar="RECORDING",
        help="file of --record or --headless --out; several of different sizes show how it scales",
    )
    add("--csv", metavar="FILE", help="measurements instead: step,worker,input_s,compute_s,reduce_s,update_s")
    add("--format", choices=[choice.value for choice in Format], default="text", help="text by default")
    add("--out", metavar="FILE", help="write to this file instead of stdout")
    flags = parser.parse_args(arguments)
    if bool(flags.recordings) == (flags.csv is not None):
        parser.error("name either a recording or --csv FILE")
    return Request(tuple(map(Path, flags.recordings)), _path(flags.csv), Format(flags.format), _path(flags.out))


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def run(arguments: Sequence[str]) -> int:
    """Write the report, and return exit status 0, also where something was found. Raises TfscaleError."""
    request = parse(arguments)
    text = _WRITERS[request.format](make(request))
    if request.out is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return 0
    try:
        request.out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {request.out}: {error.strerror}") from None
    return 0


def make(request: Request) -> RunReport:
    """Return the report. Raises UsageError where a file is not what it should be."""
    if request.csv is not None:
        return report_measured(request.csv, read_csv(request.csv))
    runs = [(path, open_run(path, ReadingProgress(path).note)) for path in request.recordings]
    return report_recorded(*runs[0]) if len(runs) == 1 else report_runs(runs)


_WRITERS: dict[Format, Callable[[RunReport], str]] = {
    Format.TEXT: as_text,
    Format.JSON: as_json,
    Format.HTML: as_html,
}
