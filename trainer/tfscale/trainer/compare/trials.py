"""Trials: each setting as a command, with the tasks that run it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tfscale.core.comparison.program_files import named_code
from tfscale.core.comparison.step_times import FEWEST_STEPS
from tfscale.core.errors import UsageError
from tfscale.core.settings.value_parsers import Parse, count, one_of, size, switch
from tfscale.trainer.compare.axes import LEFT_OUT, Axis, Setting
from tfscale.trainer.launch.catalogue import entries
from tfscale.trainer.launch.launched_cluster import Launcher
from tfscale.trainer.launch.local_cluster import BIN
from tfscale.trainer.launch.own_program import is_file, own_program
from tfscale.trainer.launch.plan import Plan
from tfscale.trainer.launch.shaped_links import Link

Read = Callable[[Sequence[str]], Plan]
"""Reader of a command line of `tfscale-train run`."""


def _calls(*words: str) -> Parse:
    """Return the parser of a number of calls or batches, of `auto`, and of these words."""

    def parse(text: str, name: str) -> Any:
        return text if text in ("auto", *words) else count(text, name)

    return parse


OUTSIDE: Mapping[str, Parse] = {
    "precision": one_of("float32", "mixed_bfloat16", "mixed_float16"),
    "jit_compile": switch,
    "steps_per_execution": count,
    "communication": one_of("auto", "ring", "nccl"),
    "bytes_per_pack": size(),
    "wire": one_of("bfloat16"),
    "prefetch": _calls("off"),
    "map": _calls(),
    "auto_shard": one_of("auto", "data", "file", "off", "hint"),
    "strategy": one_of("mirrored", "multi-worker"),
}
"""Settings that an unmodified script gets from outside, where it says nothing itself; with the parser of each."""
PLACES: Mapping[str, Parse] = {"workers": count, "servers": count, "replicas": count, "threads": count}
"""Settings of what is around the script."""
RESULT = "{result}"
"""Word of a command that stands for the file of the run's result."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One setting, ready to run."""

    name: str
    setting: Setting
    command: Sequence[str] = ()
    tasks: Mapping[str, int] = field(default_factory=dict)
    """Number of tasks by role; none for a single task outside of any cluster."""
    variables: Mapping[str, str] = field(default_factory=dict)
    flags: Sequence[str] = ()
    """Flags of the agents."""
    outside: Mapping[str, Any] = field(default_factory=dict)
    """Settings that the script gets from outside."""
    cores: Sequence[Sequence[int]] = ()
    """Cores of each task and its agent, by number; none: they are not bound."""
    hosts: int = 0
    """Number of network namespaces over which the tasks are spread; 0: they are on this machine's loopback."""
    link: Link | None = None
    """Link of each of these."""
    launcher: Launcher | None = None
    """Launcher of the agents; None: they are started on this machine."""
    files: Sequence[str] = ()
    """Files of code that the command names, with the begin of their digests."""
    refused: str = ""
    """Reason for which it cannot run at all."""


def check_words(program: str | None, run_words: Sequence[str], command: Sequence[str]) -> None:
    """Check that a program is named, with flags of `run`, or the command of a script. Raises UsageError."""
    if program is not None and command:
        raise UsageError(f"{program}: give a program, or a command after --, not both")
    if program is not None and is_file(program):
        own_program(program)
    elif program is not None and shutil.which(program) and program not in entries("program"):
        raise UsageError(f"{program}: is a command, which stands after --: -- {' '.join([program, *run_words])}")
    if program is None and run_words:
        raise UsageError(f"unrecognized arguments: {' '.join(run_words)}; a script's own follow its command, after --")


def check_steps(steps: int | None) -> None:
    """Check that a run of so many steps can be measured. Raises UsageError."""
    if steps is not None and steps < FEWEST_STEPS:
        raise UsageError(f"--steps {steps}: at least {FEWEST_STEPS}")


def check_command(command: Sequence[str]) -> None:
    """Check that the command of a script can be called. Raises UsageError."""
    if not command:
        raise UsageError("name a program, or write the command of a script after --: -- python train.py")
    if shutil.which(command[0]) is None:
        instead = f"; write -- python {command[0]}" if Path(command[0]).is_file() else ""
        raise UsageError(f"{command[0]}: there is no such command{instead}")
    script = command[1] if len(command) > 1 and Path(command[0]).name.startswith("python") else ""
    # A word with a setting in it is another one in each run.
    if script.endswith(".py") and "{" not in script and not Path(script).is_file():
        raise UsageError(f"{script}: there is no such file in {Path.cwd()}")


def script_trials(
    command: Sequence[str],
    axes: Sequence[Axis],
    settings: Mapping[str, Setting],
    written: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> list[Trial]:
    """Return the trials of a user's own command. Raises UsageError.

    Args:
        command: with {NAME} for the value of an axis.
        axes: what is varied.
        settings: by name.
        written: what the command has for a value, by axis and value, where that is not the value itself.
    """
    check_command(command)
    for axis in axes:
        if not any(f"{{{axis.name}}}" in word for word in command):
            _check(axis)
    return [_script_trial(name, command, setting, written) for name, setting in settings.items()]


def _check(axis: Axis) -> None:
    """Check the values of an axis that the command does not name. Raises UsageError."""
    parse = {**OUTSIDE, **PLACES}.get(axis.name)
    if parse is None and not axis.name.isupper():
        raise UsageError(
            f"--set {axis.name}: write {{{axis.name}}} where the command has this value, or name a setting that is set "
            f"from outside ({', '.join([*OUTSIDE, *PLACES])}) or a variable of the environment in capitals"
        )
    for value in axis.values:
        if parse is not None and value != LEFT_OUT:
            parse(value, f"--set {axis.name}")


def _script_trial(
    name: str, command: Sequence[str], setting: Setting, written: Mapping[str, Mapping[str, str]]
) -> Trial:
    places = {axis: written.get(axis, {}).get(value, value) for axis, value in setting.items()}
    # Other braces of the command, as those of JSON, and those of values stay as they are.
    words = [re.sub(r"{([\w-]+)}", lambda match: places.get(match[1], match[0]), word) for word in command]
    named = {axis for axis in setting if any(f"{{{axis}}}" in word for word in command)}
    given = {axis: value for axis, value in setting.items() if axis not in named and value != LEFT_OUT}
    variables = {axis: value for axis, value in given.items() if axis.isupper()}
    if "threads" in given:
        variables |= dict.fromkeys(("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS"), given["threads"])
    workers, servers = int(given.get("workers", 0)), int(given.get("servers", 0))
    tasks = {"worker": workers} if workers > 1 else {}
    return Trial(
        name,
        setting,
        command=words,
        files=named_code(words),
        tasks={"chief": 1, "worker": max(workers, 1), "ps": servers} if servers else tasks,
        variables=variables,
        flags=["--replicas", given["replicas"]] if int(given.get("replicas", 1)) > 1 else [],
        outside={axis: OUTSIDE[axis](value, axis) for axis, value in given.items() if axis in OUTSIDE},
    )


def program_trials(program: str, words: Sequence[str], settings: Mapping[str, Setting], plan: Read) -> list[Trial]:
    """Return the trials of a program of `tfscale-train run`. Raises UsageError where the base cannot run.

    Args:
        program: its name or file.
        words: flags that all trials share.
        settings: by name.
        plan: reads a whole command line of `run`, and raises UsageError.
    """
    trials = [_program_trial(name, program, words, setting, plan) for name, setting in settings.items()]
    if trials[0].refused:
        raise UsageError(trials[0].refused)
    return trials


def _program_trial(name: str, program: str, words: Sequence[str], setting: Setting, plan: Read) -> Trial:
    flags = [word for axis, value in setting.items() if value != LEFT_OUT for word in _flag(axis, value)]
    run = ["run", program, *words, *flags, "--json"]
    try:
        planned = plan([*run, "result.json"])
    except UsageError as error:
        if "--help shows how" in str(error):  # a flag that is not there, or a value that is no number
            raise
        return Trial(name, setting, refused=str(error))
    return Trial(
        name,
        setting,
        command=[str(BIN / "tfscale-train"), *run, RESULT],
        tasks=planned.local_tasks,
        files=named_code([program]),
    )


def _flag(axis: str, value: str) -> list[str]:
    return [f"--{axis.replace('_', '-')}", value]


def variables_of(trial: Trial, folder: Path) -> dict[str, str]:
    """Return the variables by which a run is set from outside, and writes its steps into this folder."""
    return {"TFSCALE_STEPS": str(folder), "TFSCALE_SET": json.dumps(trial.outside), **trial.variables}


def command_of(trial: Trial, result: Path) -> list[str]:
    return [str(result) if word == RESULT else word for word in trial.command]
