"""Parts of the commands that do real runs and print a table of them: flags, kept results, rows."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from typing import Any


def table_parser(description: str | None, names: str = "", results: Path | None = None) -> argparse.ArgumentParser:
    """Return a parser with the flags of all tables.

    Args:
        description: docstring of the command.
        names: help of the words that choose the rows; empty: flags of the command choose them.
        results: file of `--results` alone; None: `--results` needs a file.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if names:
        parser.add_argument("names", nargs="*", metavar="NAME", help=f"{names}; default: all")
        parser.add_argument("--list", action="store_true", help="run nothing: only the names")
    nargs, alone = ("?", f" ({results.name} if none is named)") if results else (None, "")
    parser.add_argument(
        "--results",
        type=Path,
        metavar="FILE",
        nargs=nargs,
        const=results,
        help=f"keep each result in this JSON file{alone}, beside those of earlier runs",
    )
    return parser


def leave_by_exception() -> None:
    """Have SIGTERM and SIGINT end the command by an exception, so that what it has started is ended, too."""
    # Of a job in the background SIGINT is ignored, and by all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def read_results(path: Path | None) -> dict[str, Any]:
    """Return the results that were kept, by name; none without the file."""
    results: dict[str, Any] = json.loads(path.read_text()) if path is not None and path.exists() else {}
    return results


def write_results(path: Path | None, results: dict[str, Any]) -> None:
    """Keep the results, if there is a file for them."""
    if path is not None:
        path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


def table_row(*cells: str) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(' '.join(cell.replace('|', '/').split()) for cell in cells)} |"


def cut(text: str, longest: int) -> str:
    """Return the text, cut to so many characters and three dots."""
    return text if len(text) <= longest else f"{text[:longest]}..."
