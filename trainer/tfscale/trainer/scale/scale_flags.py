"""Flags of `tfscale-train scale`, which need nothing that takes long to import."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from tfscale.core.errors import UsageError
from tfscale.core.plots.plot_flags import add_plot_flags, plot_place
from tfscale.trainer.compare.compare_flags import seconds
from tfscale.trainer.launch.program_flags import above_0, new_file, place
from tfscale.trainer.launch.shaped_links import parse_link

VERBS = ("plan", "run", "report")
MOST_WORKERS = 64
USUAL_SIZES = (1, 2, 4)
USUAL_RUNS = 3
FOLDER = Path("scaling")
EXAMPLES = """examples:
  tfscale-train scale digits --steps 200
  tfscale-train scale --sizes 1,2,4,8 --steps 300 -- python train.py
  tfscale-train scale --strong --global-batch 256 -- python train.py --batch {batch}
each size as a job of its own:
  tfscale-train scale plan --sizes 1,2,4 --steps 300 -- python train.py
  tfscale-train scale run 2
  tfscale-train scale report"""
ABOUT = """Measure a program of `tfscale-train run`, or a script, with 1, 2, 4 ... workers on this machine, by agents;
on hosts, where --launcher starts the agents: --launcher 'srun -n {workers}'.

Each worker has the same number of cores for itself. Weak scaling, the default: each worker keeps its batch. --strong:
the batch of all workers together stays the same; in the command of a script {batch} is then a worker's share of
--global-batch. {workers} is the number of workers.

Exit status 0: all sizes are measured; 5: some are still missing; 6: workers shared cores, so nothing is said; 1: a size
could not be measured; 2: the script scales the other way than was asked for,
or no strategy joins its workers."""


def take_verb(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the verb of the words behind `scale`, empty for all in one, and the other words."""
    verb = words[0] if words and words[0] in VERBS else ""
    return verb, list(words[1:] if verb else words)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this command; those that were not given are None."""
    parser.add_argument(
        "program",
        nargs="?",
        metavar="[plan|run|report] [PROGRAM|SIZE]",
        help="a program as for run, without it a command after --; for the verb run, the number of workers",
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--weak", action="store_const", const=True, help="each worker keeps its batch; the default")
    kind.add_argument("--strong", action="store_const", const=True, help="the batch of all together stays the same")
    parser.add_argument("--global-batch", type=above_0, metavar="N", help="of all workers together, with --strong")
    varied = parser.add_mutually_exclusive_group()
    varied.add_argument("--sizes", type=_sizes, metavar="N,N", help="numbers of workers; default 1,2,4")
    varied.add_argument(
        "--hosts", type=_sizes, metavar="N,N", help="hosts over which --workers are spread, with --link"
    )
    parser.add_argument("--workers", type=above_0, metavar="N", help="with --hosts: of all hosts together")
    parser.add_argument(
        "--cores",
        type=above_0,
        metavar="N",
        help="of each worker; default what the largest size leaves to each, at least 1",
    )
    parser.add_argument(
        "--link",
        type=_link,
        metavar="200mbit[,5ms]",
        help="each worker, or each of --hosts, in a network namespace that sends no more a second; needs root",
    )
    parser.add_argument(
        "--launcher",
        type=_words,
        metavar="'srun -n {workers}'",
        help="on hosts: what starts {workers} agents there, which share this folder",
    )
    parser.add_argument(
        "--cluster", metavar="FILE", help="with --launcher: their cluster file; {hosts} are those of a size's workers"
    )
    parser.add_argument("--runs", type=above_0, metavar="N", help=f"of each size; default {USUAL_RUNS}")
    parser.add_argument("--steps", type=above_0, metavar="N", help="of each run, after which a script is ended")
    parser.add_argument("--folder", type=place, metavar="DIR", help=f"for the plan and the runs; default {FOLDER}")
    parser.add_argument("--budget", type=seconds, metavar="TIME", help="for all runs of this call; default 30m")
    parser.add_argument("--patience", type=seconds, metavar="TIME", help="for a first step; default 5m")
    parser.add_argument("--json", type=new_file, metavar="FILE", help="write all numbers there")
    parser.add_argument(
        "--proposal", type=_proposal, metavar="FILE", help="write a page there, FILE.md (with FILE.svg) or FILE.html"
    )
    add_plot_flags(parser)


_PLANNED = (
    *("program", "weak", "strong", "global_batch", "sizes", "hosts", "workers", "cores", "link"),
    *("launcher", "cluster", "runs", "steps"),
)
_RUN = ("budget", "patience")
_REPORTED = ("json", "plot", "proposal")
_FOREIGN = {"plan": (*_RUN, *_REPORTED), "run": (*_PLANNED[1:], *_REPORTED), "report": (*_PLANNED, *_RUN)}


def check_verb(verb: str, flags: argparse.Namespace, run_words: Sequence[str], command: Sequence[str]) -> None:
    """Refuse what a verb does not take. Raises UsageError."""
    for name in _FOREIGN.get(verb, ()):
        if getattr(flags, name) is not None:
            said = flags.program if name == "program" else f"--{name.replace('_', '-')}"
            raise UsageError(f"scale {verb}: does not take {said}; see tfscale-train scale --help")
    if verb in ("run", "report") and (run_words or command):
        raise UsageError(f"scale {verb}: does not take {' '.join([*run_words, *command])}: the plan has the command")


def _sizes(text: str) -> list[int]:
    words = text.split(",")
    if not all(word.isdecimal() and len(word) < 9 and 0 < int(word) <= MOST_WORKERS for word in words):
        raise argparse.ArgumentTypeError(f"{text!r}: write numbers from 1 to {MOST_WORKERS}, for example 1,2,4")
    if len(set(map(int, words))) < 2:
        raise argparse.ArgumentTypeError(f"{text!r}: two different numbers at least, for example 1,2,4")
    return sorted(set(map(int, words)))


def _link(text: str) -> str:
    try:
        parse_link(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}") from None
    return text


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    if not words:
        raise argparse.ArgumentTypeError("write a command, for example 'srun -n {workers}'")
    return words


def _proposal(text: str) -> Path:
    path = new_file(text)
    if path.suffix not in (".md", ".html"):
        raise argparse.ArgumentTypeError(f"{text!r}: a proposal is a file.md or a file.html")
    plot_place(str(path.with_suffix(".svg")))
    return path
