"""Flags of `tfscale-train compare`, which need nothing that takes long to import."""

from __future__ import annotations

import argparse
import re

from tfscale.core.cluster.gpu_price import GpuPrice, parse_gpu_price
from tfscale.core.comparison.rounds import FEWEST, MOST, Rounds
from tfscale.core.errors import UsageError
from tfscale.core.plots.plot_flags import add_plot_flags
from tfscale.core.settings.value_parsers import share
from tfscale.trainer.launch.program_flags import above_0, new_file

EXAMPLES = """examples:
  tfscale-train compare --set batch=32,64,128 -- python train.py --batch {batch}
  tfscale-train compare --set precision=float32,mixed_bfloat16 --steps 300 -- python train.py
  tfscale-train compare --against HEAD~1 -- python train.py
  tfscale-train compare digits --set strategy=one-device,mirrored --set batch=32,64 --steps 200"""
ABOUT = f"""Compare a program of `tfscale-train run`, or a script that knows nothing of tfscale, under several settings.

--set NAME=VALUE,VALUE varies one thing; several of them are combined. The first values are the base. NAME is a flag of
`tfscale-train run`; {{NAME}} in the command of a script; a variable of the environment in capitals; or, in a script
that knows nothing of it, one of: precision, jit_compile, steps_per_execution, communication, bytes_per_pack, wire,
prefetch, map, auto_shard, strategy, workers, servers, replicas, threads. A value `none` leaves it out; 10k is 10000;
values that contain commas have semicolons between them.

Each round runs every setting once, in turns. After {FEWEST} rounds at least each is faster, slower, within the margin,
or undecided; only what is undecided goes on. Exit status 0: all are decided; 5: some are not; 1: nothing could be
compared."""
_UNITS = {"s": 1, "m": 60, "h": 3600}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this command."""
    parser.add_argument("program", nargs="?", metavar="PROGRAM", help="as for run; without it, a command after --")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=V,V", help="what is varied, and its values")
    parser.add_argument("--against", metavar="COMMIT", help="the base is the script as this commit of git has it")
    parser.add_argument("--budget", type=seconds, default=1800.0, metavar="TIME", help="for all runs; default 30m")
    parser.add_argument(
        "--rounds", type=above_0, default=MOST, metavar="N", help=f"at most; at least {FEWEST}, default {MOST}"
    )
    parser.add_argument("--margin", type=_share, default=Rounds().margin, metavar="P", help="of `within`; default 3%%")
    parser.add_argument("--steps", type=above_0, metavar="N", help="of each run, after which a script is ended")
    parser.add_argument("--patience", type=seconds, default=300.0, metavar="TIME", help="for a first step; default 5m")
    parser.add_argument("--loss", type=float, metavar="L", help="tell the time to this loss")
    parser.add_argument(
        "--cost-per-hour",
        type=_price,
        metavar="P",
        help="of a device, such as 2.50EUR: tell the cost to --loss; default [cost] of the cluster file",
    )
    parser.add_argument("--json", type=new_file, metavar="FILE", help="write all numbers of all runs there")
    add_plot_flags(parser)
    parser.add_argument("--csv", type=new_file, metavar="FILE", help="write a line for each setting there")


def _share(text: str) -> float:
    try:
        return share(text, "--margin")
    except UsageError as error:
        raise argparse.ArgumentTypeError(f"{error}") from None


def _price(text: str) -> GpuPrice:
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([A-Z]{3})?", text)
    try:
        return parse_gpu_price({"per_gpu_hour": float(match[1]), "currency": match[2] or "USD"} if match else {})
    except UsageError:
        raise argparse.ArgumentTypeError(f"{text!r} is no price of an hour: write for example 2.50EUR") from None


def seconds(text: str) -> float:
    """Parse a time such as `30m`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if match is None or not float(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write for example 90s, 30m or 2h")
    return float(match[1]) * _UNITS[match[2] or "s"]
