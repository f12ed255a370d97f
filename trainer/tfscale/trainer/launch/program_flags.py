"""Flags of a program that has a command line of its own. A mistake is one line, and exit status 2."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.settings.precedence import CommandLine
from tfscale.trainer.saving.whole_files import check_file, check_writable, write_text

MOST = 2**31 - 1
"""Largest whole number of a flag: the largest int32 of TensorFlow, and the largest seed of NumPy."""
_MOST_DIGITS = 100


def command_line(name: str, description: str | None) -> CommandLine:
    """Return the parser of a program's flags, with `--json`."""
    parser = CommandLine(
        prog=f"tfscale-train run {name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--json", type=new_file, metavar="FILE", help="write the result there")
    return parser


def above_0(text: str) -> int:
    """Parse a whole number above 0 that TensorFlow can take."""
    if not (text.isdecimal() and text.strip("0")):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return _bounded(text)


def learning_rate(text: str) -> float:
    """Parse a learning rate."""
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no learning rate: write a number above 0")
    return rate


def seed(text: str) -> int:
    """Parse a seed."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return _bounded(text)


def _bounded(text: str) -> int:
    # Python reads no number of thousands of digits.
    if len(text) > _MOST_DIGITS or int(text) > MOST:
        raise argparse.ArgumentTypeError(f"{text} is more than {MOST}")
    return int(text)


def check_divides(settings: argparse.Namespace, whole: str, parts: str) -> None:
    """Check that one option is a multiple of another. Raises UsageError."""
    number, into = getattr(settings, whole), getattr(settings, parts)
    if number % into:
        raise UsageError(f"{_flag(whole)} {number}: not divisible by {_flag(parts)} {into}")


def check_steps(settings: argparse.Namespace, untimed: int) -> None:
    """Check that steps are left after the untimed first ones. Raises UsageError."""
    if settings.steps <= untimed:
        first = "first is" if untimed == 1 else f"first {untimed} are"
        raise UsageError(f"--steps {settings.steps}: at least {untimed + 1}, since the {first} not timed")


def write_json(settings: argparse.Namespace, result: Mapping[str, Any]) -> None:
    """Write the result into the file of `--json`, if given. Raises TfscaleError."""
    if settings.json:
        write_result(settings.json, result)


def write_result(path: Path, result: Mapping[str, Any]) -> None:
    """Write a result into the file of `--json` as one JSON object, whole or not at all. Raises TfscaleError."""
    try:
        write_text(path, json.dumps(result) + "\n")
    except OSError as error:
        raise TfscaleError(f"--json {path}: {error.strerror}") from None


def place(text: str) -> Path:
    """Parse the name of a file or folder."""
    if not text:
        raise argparse.ArgumentTypeError("is empty, name a place")
    return Path(text)


def new_file(text: str) -> Path:
    """Parse the name of a file that can be written here."""
    path = place(text)
    try:
        check_file(path)
        check_writable(path)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{path}: {error}") from None
    return path


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
