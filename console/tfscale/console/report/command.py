"""`tfscale-console report`: reads its part of the command line, and writes the report."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

from tfscale.console.report.csvfile import read_csv
from tfscale.console.report.replay import diagnose_measured
from tfscale.core.codec import encode
from tfscale.core.errors import UsageError


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"
    HTML = "html"


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for: exactly one of `recording` and `csv`."""

    recording: Path | None
    csv: Path | None
    format: Format
    out: Path | None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"report: {message}; report --help shows how")


def parse(arguments: Sequence[str]) -> Request:
    """The request. Raises UsageError."""
    parser = _Parser(prog="tfscale-console report", description="Say what went on in a recorded run, and why.")
    add = parser.add_argument
    add("recording", nargs="?", metavar="RECORDING", help="what --headless --out wrote")
    add("--csv", metavar="FILE", help="measurements instead: step,worker,input_s,compute_s,reduce_s,update_s")
    add("--format", choices=[each.value for each in Format], default="text", help="text unless told otherwise")
    add("--out", metavar="FILE", help="write there instead of to stdout")
    flags = parser.parse_args(arguments)
    if (flags.recording is None) == (flags.csv is None):
        parser.error("name either a recording or --csv FILE")
    paths = {name: Path(value) if value else None for name, value in vars(flags).items() if name != "format"}
    return Request(**paths, format=Format(flags.format))


def run(arguments: Sequence[str]) -> int:
    """Write the report; the exit status, which is 0 whatever was found. Raises TfscaleError."""
    request = parse(arguments)
    text = render(request)
    if request.out is None:
        sys.stdout.write(text)
        return 0
    try:
        request.out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {request.out}: {error.strerror}") from None
    return 0


def render(request: Request) -> str:
    """The report in the format asked for. Raises UsageError where the file is not what it should be."""
    assert request.csv is not None
    diagnoses = diagnose_measured(read_csv(request.csv))
    return json.dumps([encode(each) for each in diagnoses], indent=2, ensure_ascii=False) + "\n"
