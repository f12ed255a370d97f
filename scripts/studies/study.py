"""Studies that settle claims about how distributed TensorFlow scales, each by real trainings on links of known speed.

Workers are real, under agents, on hosts that are network namespaces of this machine (as root). The settings of a study
take turns, round by round; a table goes to stdout, and with `--json FILE` every run is kept there: the same command
goes on after what the file has, and makes table and plot anew.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import net_hosts
from shaped_run import NotTrained, Setting, ShapedRun, shaped_run
from table_command import leave_by_exception, table_row
from tfscale.core.comparison.rounds import order
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.files.whole_file import write_whole
from tfscale.core.plots.plot_flags import add_plot_flags, draw
from tfscale.core.settings.exit_status import ExitStatus

STUDIES = ("ring_formula", "four_hosts", "server_counts", "host_placement", "contention")
Runs = dict[str, list[ShapedRun]]
"""Runs of each setting, round by round."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/study", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", choices=STUDIES, help="which claim")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="runs of each setting; default 3")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep every run there, and go on with those it has")
    add_plot_flags(parser)
    flags = parser.parse_args()
    if flags.rounds < 1:
        parser.error(f"--rounds {flags.rounds}: at least 1")
    study = importlib.import_module(flags.study)
    leave_by_exception()
    try:
        runs = made_runs(study.SETTINGS, flags.rounds, flags.json)
        for row in (study.COLUMNS, ["---"] * len(study.COLUMNS), *study.rows(runs)):
            print(table_row(*row))
        draw(study.chart(runs), flags.plot, flags.plot_theme)
    except UsageError as error:
        print(f"scripts/study: {error}", file=sys.stderr)
        return ExitStatus.USAGE
    except (TfscaleError, OSError) as error:
        print(f"scripts/study: {error}", file=sys.stderr)
        return ExitStatus.NOTHING
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED
    return ExitStatus.WELL


def made_runs(settings: Sequence[Setting], rounds: int, kept: Path | None) -> Runs:
    """Return the runs of these rounds, those that the file has first. Raises TfscaleError and OSError."""
    runs: Runs = {setting.name: [] for setting in settings}
    if kept is not None:
        runs |= _kept_runs(kept, runs)
    for number in range(rounds):
        for place in order(len(settings), number):
            setting = settings[place]
            if len(runs[setting.name]) > number:
                continue
            if reason := net_hosts.missing():
                raise NotTrained(reason)
            runs[setting.name].append(run := shaped_run(setting))
            print(f"{setting.name}, round {number + 1}: {run.step:.3f} s a step", file=sys.stderr, flush=True)
            if kept is not None:
                write_whole(kept, json.dumps({name: [*map(asdict, each)] for name, each in runs.items()}))
    return {name: each[:rounds] for name, each in runs.items()}


def _kept_runs(path: Path, names: Iterable[str]) -> Runs:
    """Return the runs of a file under these names. Raises UsageError where it is none, or can be none."""
    if not path.exists():
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise UsageError(f"--json {path}: no file can be made there")
        return {}
    try:
        known = json.loads(path.read_text())
        return {name: [ShapedRun(**run) for run in known[name]] for name in names if name in known}
    except (ValueError, TypeError) as error:
        raise UsageError(f"--json {path}: no runs of a study ({error}); name another file") from None


if __name__ == "__main__":
    sys.exit(main())
