"""`tfscale-train`: trains a program under a strategy, with techniques, on the machines that are there."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tfscale.core.errors import TfscaleError
from tfscale.core.settings.exit_status import ExitStatus
from tfscale.core.settings.precedence import CommandLine, split_command
from tfscale.core.version import version_line
from tfscale.trainer.batch import batch_flags
from tfscale.trainer.compare import compare_flags
from tfscale.trainer.input.input_flag import ALL_PARTS
from tfscale.trainer.launch.catalogue import FOLDERS, Entry, entries, not_installed
from tfscale.trainer.launch.local_cluster import BIN
from tfscale.trainer.launch.local_run import run_locally, run_program_locally
from tfscale.trainer.launch.module_checks import check_own, check_parts, own_settings
from tfscale.trainer.launch.place import check_tasks, own_tasks, read_place
from tfscale.trainer.launch.plan import LOOPS, Plan, flag, flags_of, keras_of, make_plan
from tfscale.trainer.launch.program_flags import learning_rate, place
from tfscale.trainer.saving.output_places import check_outputs
from tfscale.trainer.scale import scale_flags

_EXAMPLES = """examples:
  tfscale-train run digits --strategy multi-worker --workers 2 --steps 200
  tfscale-train compare --set batch=32,64 -- python train.py --batch {batch}
  tfscale-train batch -- python train.py --batch {batch}
  tfscale-train scale --sizes 1,2,4 --steps 300 -- python train.py
  tfscale-train advise
  tfscale-train list"""
_RUN_EXAMPLES = """examples:
  tfscale-train run digits --strategy mirrored --replicas 2
  tfscale-train run digits --strategy multi-worker --workers 2 --with accumulation=4,mixed=bfloat16 --steps 200
  tfscale-train run sparse --strategy parameter-server --workers 2 --servers 2 --json out.json

Under an agent it takes its place in the cluster that is there:
  tfscale-agent --cluster cluster.toml --role worker --index 0 -- tfscale-train run digits --strategy multi-worker"""
_LIST_EXAMPLES = """example:
  tfscale-train list"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        status = _main(words)
        if sys.stdout is not None:  # it is closed: ">&-"
            sys.stdout.flush()
        return status
    except TfscaleError as error:
        print(f"tfscale-train: {error}", file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:
        # Whoever read the output has gone; nothing must be written to it when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if _has_place():
            raise  # into the task's log, with all that led to it
        print(f"tfscale-train: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("tfscale-train: interrupted", file=sys.stderr)
        return ExitStatus.INTERRUPTED


def _main(words: Sequence[str]) -> int:
    if words[:1] == ["run"] and (own := _own_main(words[1:2])) is not None:
        return _run_own(own, words[2:])
    if words[:1] == ["advise"]:
        return _advise(words)
    if words[:1] in (["compare"], ["batch"]):
        return _measure(words)
    if words[:1] == ["scale"]:
        return _scale(words)
    chosen = parser().parse_args(words)
    return _list() if chosen.command == "list" else _run(vars(chosen), words)


def _advise(words: Sequence[str]) -> int:
    """Become `tfscale-console advise`, which has the diagnosis: no program imports another."""
    console = BIN / "tfscale-console"
    os.execv(console, [str(console), *words])


def _measure(words: Sequence[str]) -> int:
    """Run `compare` or `batch`, whose modules import NumPy."""
    own, command = split_command(words)
    flags, run_words = parser().parse_known_args(own)
    if flags.command == "batch":
        from tfscale.trainer.batch import batch_command

        return batch_command.batch(flags, run_words, command, planned)
    from tfscale.trainer.compare import compare_command

    return compare_command.compare(flags, run_words, command, planned)


def _scale(words: Sequence[str]) -> int:
    own, command = split_command(words)
    verb, rest = scale_flags.take_verb(own[1:])
    flags, run_words = parser().parse_known_args(["scale", *rest])
    from tfscale.trainer.scale import scale_command  # imports NumPy

    return scale_command.scale(verb, flags, run_words, command, planned)


def planned(words: Sequence[str]) -> Plan:
    """Return the plan of a command line of `run`, checked as far as that is possible before a start.

    Raises UsageError.
    """
    plan = make_plan(vars(parser().parse_args(words)))
    check_parts(plan)
    return plan


def parser() -> CommandLine:
    """Return the parser of the command line, with all commands and their flags."""
    made = CommandLine(
        prog="tfscale-train",
        description="Train TensorFlow by every technique of scaling, and see what it does to the step.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--version", action="version", version=version_line())
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    shared: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    run = commands.add_parser(
        "run", help="train a program", description=_run_description(), epilog=_RUN_EXAMPLES, **shared
    )
    _add_run_flags(run)
    compared = commands.add_parser(
        "compare",
        help="compare settings of a program or a script, run by run",
        description=compare_flags.ABOUT,
        epilog=compare_flags.EXAMPLES,
        **shared,
    )
    compare_flags.add_flags(compared)
    sized = commands.add_parser(
        "batch",
        help="find the batch of a program or a script, size by size",
        description=batch_flags.ABOUT,
        epilog=batch_flags.EXAMPLES,
        **shared,
    )
    batch_flags.add_flags(sized)
    scaled = commands.add_parser(
        "scale",
        help="measure with 1, 2, 4 ... workers",
        description=scale_flags.ABOUT,
        epilog=scale_flags.EXAMPLES,
        **shared,
    )
    scale_flags.add_flags(scaled)
    commands.add_parser("advise", help="say what would make a run faster, and how to try it", add_help=False)
    about = "List all programs, strategies and techniques there are."
    commands.add_parser("list", help="list what there is to run", description=about, epilog=_LIST_EXAMPLES, **shared)
    return made


def _run_description() -> str:
    return "Train a program under a strategy; without an agent, on a cluster on this machine, under agents."


def _add_run_flags(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "program", metavar="PROGRAM", help=f"one of {', '.join(entries('program'))}, or a file such as ./my_model.py"
    )
    run.add_argument("--strategy", default="one-device", metavar="S", help=f"one of {', '.join(entries('strategy'))}")
    run.add_argument("--with", metavar="T=V,...", help="techniques, each with its value: see tfscale-train list")
    run.add_argument("--loop", choices=LOOPS, default="fit", help="Keras's fit, or a loop of its own; default fit")
    run.add_argument("--input", metavar="P=N,...", help=f"parts of the input pipeline: {ALL_PARTS}")
    run.add_argument("--steps", type=int, metavar="N", help="default 200")
    run.add_argument("--batch", type=int, metavar="N", help="examples of one replica's step; default the program's")
    run.add_argument("--global-batch", type=int, metavar="N", help="examples of all replicas' step, instead of --batch")
    run.add_argument("--rate", type=learning_rate, metavar="R", help="of learning; default the program's")
    run.add_argument("--seed", type=int, metavar="N", help="of data, weights and their order; default 0")
    run.add_argument("--examples", type=int, metavar="N", help="synthetic ones to make; default the program's")
    run.add_argument("--json", type=place, metavar="FILE", help="write the result there")
    run.add_argument(
        "--checkpoints", type=place, metavar="DIR", help="save there, and go on from what is there; shared by all tasks"
    )
    saved = "the trained model: x.keras, x.h5, x.weights.h5 or a folder for a SavedModel; may be given several times"
    run.add_argument("--save", type=place, action="append", metavar="PATH", help=saved)
    run.add_argument("--tensorboard", type=place, metavar="DIR", help="write event files there, by the chief alone")
    run.add_argument(
        "--slow", action="append", metavar="TASK=60ms|1.3x[,PHASE][@30s]", help="a real delay in its steps"
    )
    options = run.add_argument_group("options of strategies")
    takers: dict[str, list[tuple[str, Any]]] = {}
    for strategy in entries("strategy").values():
        for name, allowed in flags_of(strategy).items():
            takers.setdefault(name, []).append((strategy.name, allowed))
    for name, taken in takers.items():
        is_number = isinstance(taken[0][1], tuple) and isinstance(taken[0][1][0], int)
        options.add_argument(
            flag(name), type=int if is_number else str, metavar="N" if is_number else "X", help=_help(taken)
        )


def _help(taken: Sequence[tuple[str, Any]]) -> str:
    """Return the line of a flag: its values, and the strategies that take this flag."""
    return f"{_values(taken[0][1])} ({', '.join(name for name, _ in taken)})"


def _values(allowed: Any) -> str:
    if isinstance(allowed, str):
        return allowed
    return "a number" if isinstance(allowed[0], int) else ", ".join(allowed)


def _list() -> int:
    for kind, title in FOLDERS.items():
        print(f"{title}:")
        found = entries(kind)
        width = max(map(len, found), default=0)
        for name, entry in found.items():
            print(f"  {name:<{width}}  {entry.summary}")
            if values := entry.constants.get("VALUES"):
                print(f"  {'':<{width}}    {name}={values}")
    return 0


def _run(given: dict[str, Any], words: Sequence[str]) -> int:
    plan = make_plan(given)
    check_parts(plan)
    if not _has_place():
        check_tasks(plan, plan.local_tasks)
        for entry in (plan.program, plan.strategy, *(technique for technique, _ in plan.techniques)):
            entry.check_installed(keras_of(os.environ))
        check_outputs(plan)
        return run_locally(plan, words)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        from tfscale.trainer.training import task_run
    except ModuleNotFoundError as error:
        raise not_installed(error.name) from None
    task_run.run(plan)
    return 0


def _has_place() -> bool:
    """Return whether this process is a task of a cluster already: agents say so in TF_CONFIG."""
    return bool(os.environ.get("TF_CONFIG"))


def _own_main(names: Sequence[str]) -> Entry | None:
    """Return the program of this name if the program has a command line of its own, else None."""
    program = entries("program").get(names[0]) if names else None
    return program if program and "main" in program.functions else None


def _run_own(program: Entry, words: Sequence[str]) -> int:
    """Run a program with its own command line, without strategies, loops and techniques."""
    tasks = own_tasks(program, words, _tasks_there())
    check_own(program, words, tasks)
    if not _has_place():
        program.check_installed(keras_of(os.environ))
        return run_program_locally(program.name, tasks, ["run", program.name, *words])
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    module = program.load()
    module.main(own_settings(module, words, tasks))
    return 0


def _tasks_there() -> Mapping[str, int] | None:
    """Return the number of tasks by role of this process's cluster, None if the process is in no cluster."""
    return read_place(os.environ).tasks if _has_place() else None


if __name__ == "__main__":
    sys.exit(main())
