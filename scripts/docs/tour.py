"""Drive the console through all legs of its tour, and keep a picture of each stop.

The legs in a terminal are those that the tests go; `browser` is a page of --serve in a Chromium without a window.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from watching.tour.browser_tour import browse
from watching.tour.console_legs import LEGS
from watching.tour.console_tour import drive


def main() -> int:
    """Go the legs that are named, or all; return 1 if one shows something else than it should."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("legs", nargs="*", metavar="LEG", help="default: all")
    parser.add_argument("--list", action="store_true", help="drive nothing: only the names")
    parser.add_argument("--out", type=Path, metavar="FOLDER", default=Path("tour"), help="for the pictures (tour)")
    flags = parser.parse_args()
    ways = {leg.name: partial(drive, leg) for leg in LEGS} | {"browser": browse}
    if unknown := [name for name in flags.legs if name not in ways]:
        parser.error(f"there is no leg {unknown[0]!r}: name one of {', '.join(ways)}")
    if flags.list:
        print(*ways, sep="\n")
        return 0
    flags.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in flags.legs or ways:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="tfscale-tour-") as folder:
            try:
                ways[name](Path(folder), flags.out)
                said = "as it should be"
            except AssertionError as error:
                failed, said = failed + 1, f"{error}"
        print(f"{name}   {time.monotonic() - begin:.0f} s   {said}", flush=True)
    print(f"{len([*flags.out.iterdir()])} pictures in {flags.out}", file=sys.stderr)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
