"""Let random faults, upgrades and orders happen to three agents, a spare and two consoles, and judge what is left.

A line for each deed, and for how the cluster was after each round of them; a table of what agents and consoles take;
exit status 1 where something is not as it must be. The same seed gives the same deeds at the same times.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import net_hosts
from soak.soak import soak
from table_command import leave_by_exception


def main() -> int:
    """Run a soak and return 1 if something was wrong, 2 where there can be none."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0, metavar="M", help="length, some seconds more (30)")
    parser.add_argument("--seed", type=int, metavar="S", help="seed of the deeds (that of the moment)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="new folder for all logs; left out: none is kept")
    flags = parser.parse_args()
    if why := net_hosts.missing():
        print(why, file=sys.stderr)
        return 2
    leave_by_exception()
    seed = int(time.time()) if flags.seed is None else flags.seed
    with tempfile.TemporaryDirectory(prefix="tfscale-soak-") as folder:
        where = flags.keep or Path(folder) / "soak"
        where.mkdir()
        faults = soak(where.absolute(), 60 * flags.minutes, seed, lambda line: print(line, flush=True))
    print(*faults, sep="\n")
    return min(len(faults), 1)


if __name__ == "__main__":
    sys.exit(main())
