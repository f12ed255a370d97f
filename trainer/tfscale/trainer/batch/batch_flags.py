"""Flags of `tfscale-train batch`, which need nothing that takes long to import."""

from __future__ import annotations

import argparse

from tfscale.trainer.compare.compare_flags import seconds
from tfscale.trainer.launch.program_flags import above_0, learning_rate, new_file

EXAMPLES = """examples:
  tfscale-train batch -- python train.py --batch {batch}
  tfscale-train batch --max 4096 --workers 2 -- python train.py --batch {batch}
  tfscale-train batch --rate 0.01 -- python train.py --batch {batch} --learning-rate {rate}
  tfscale-train batch digits --strategy mirrored --replicas 2 --steps 300"""
ABOUT = """Find the smallest batch with 95 % of the most examples a second, and 10 % of head-room.

A program of `tfscale-train run`, or a script whose command has {batch} in it, runs in a new process for each size.
Sizes double until one does not run, --max is reached, or two in a row bring less than 5 % more; then sizes between are
tried. At last the chosen size is run with 10 % more examples: where that fails, the next smaller one is.
Exit status 0: one is found; 5: the time was over before, or head-room was not shown; 1: no size was measured."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this command."""
    parser.add_argument("program", nargs="?", metavar="PROGRAM", help="as for run; without it, a command after --")
    parser.add_argument("--start", type=above_0, default=32, metavar="N", help="first size; default 32")
    parser.add_argument("--max", type=above_0, metavar="N", help="largest size that may be chosen")
    parser.add_argument("--runs", type=above_0, default=1, metavar="N", help="of each size; default 1")
    parser.add_argument("--steps", type=above_0, metavar="N", help="of each run, after which a script is ended")
    parser.add_argument("--workers", type=above_0, metavar="N", help="a cluster of N workers on this machine")
    parser.add_argument("--servers", type=above_0, metavar="N", help="parameter servers of it, and a chief")
    parser.add_argument(
        "--rate", type=learning_rate, metavar="R", help="learning rate at --start; {rate} is scaled with the size"
    )
    parser.add_argument("--budget", type=seconds, default=1800.0, metavar="TIME", help="for all runs; default 30m")
    parser.add_argument("--patience", type=seconds, default=300.0, metavar="TIME", help="for a first step; default 5m")
    parser.add_argument("--json", type=new_file, metavar="FILE", help="write all numbers of all runs there")
    parser.add_argument("--csv", type=new_file, metavar="FILE", help="write a line for each size there")
