"""Trials of remedies: the command of `tfscale-train compare` that shows what a remedy brings."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from tfscale.console.analysis.run.load import Load
from tfscale.core.records.diagnosis import Remedy

_COMPARE = "tfscale-train compare"
_OUTPUTS = ("--json", "--checkpoints", "--save", "--tensorboard")
"""Flags of `tfscale-train run` that a trial leaves out: it must neither write nor go on from what was written."""


@dataclass(frozen=True, slots=True)
class TriedProgram:
    """Program of the run, as its agents start it."""

    command: tuple[str, ...]
    batch: int | None = None
    """Examples of one worker's step, None unknown."""

    @property
    def is_known(self) -> bool:
        """True for a program of `tfscale-train run`, whose flags are known."""
        return len(self.command) > 2 and PurePath(self.command[0]).name == "tfscale-train" and self.command[1] == "run"


@dataclass(frozen=True, slots=True)
class _Axis:
    """A thing that `compare` varies: its values for a program of `tfscale-train run`, and for a script."""

    name: str
    values: tuple[str, ...]
    added: str = ""
    """Word that a flag of a program gets beside those that it has, in place of `values`."""
    script: str = ""
    """Name of the flag that a script needs, where its name differs."""
    from_outside: bool = False
    """True where a script gets it from outside, without a flag."""


_BY_EFFORT = (
    "as long in a step as the median of the others",
    "input beside training",
    "compute and input double",
    "compute, input and the rows that are gathered double",
    "half the bytes",
    "a quarter of the all-reduces",
    "an all-reduce instead of an all-gather",
    "a shorter ring, or none",
    "each server moves half",
    "ring all-reduce",
    "all-gather, which grows with every worker",
    "half the transfer",
    "half the compute",
)
"""Models of remedies, those first that change least: nothing but a word of the program before other hardware."""


def effort(remedy: Remedy) -> int:
    """Return the rank of a remedy, the least effort first."""
    return _BY_EFFORT.index(remedy.model) if remedy.model in _BY_EFFORT else len(_BY_EFFORT)


def trial(remedy: Remedy, program: TriedProgram, load: Load | None) -> str | None:
    """Return the command that tries a remedy; None where it takes other hardware, or nothing is known to call."""
    axes = _axes(remedy, program, load)
    if load is None or not axes or not program.command:
        return None
    return (_of_program if program.is_known else _of_script)(axes, program, load.ranks)


def _axes(remedy: Remedy, program: TriedProgram, load: Load | None) -> tuple[_Axis, ...]:
    if load is None:
        return ()
    batch, ranks = program.batch, load.ranks
    match remedy.model:
        case "half the bytes":
            return (_Axis("with", ("float32", "bfloat16"), "wire=bfloat16", "wire"),)
        case "a quarter of the all-reduces" if batch and load.local_steps == load.micro_batches == 1:
            grown = _Axis("batch", (str(batch), str(4 * batch)))
            return (grown, _Axis("with", ("1", "4"), "accumulation=4", "accumulation"))
        case "compute and input double" | "compute, input and the rows that are gathered double" if batch:
            return (_Axis("batch", (str(batch), str(2 * batch))),)
        case "input beside training":
            return (_Axis("input", ("0", "2"), "prefetch=2", "prefetch"),)
        case "a shorter ring, or none":
            return (_Axis("workers", (str(ranks), str(ranks // 2)), from_outside=True),)
        case "ring all-reduce" | "all-gather, which grows with every worker":
            return (_Axis("workers", (str(ranks), str(2 * ranks)), from_outside=True),)
        case _:
            return ()


def _of_program(axes: Sequence[_Axis], program: TriedProgram, ranks: int) -> str:
    words = list(program.command[2:])
    for flag in _OUTPUTS:
        _taken(words, flag)
    sets = []
    for axis in axes:
        had = _taken(words, f"--{axis.name}")
        if axis.added:
            then = f"{had},{axis.added}" if had else axis.added
            sets.append(f"{axis.name}={had or 'none'};{then}")
        else:
            sets.append(f"{axis.name}={','.join(axis.values)}")
    if all(axis.name != "workers" for axis in axes) and ranks > 1 and "--workers" not in words:
        words += ["--workers", str(ranks)]
    return shlex.join([*_COMPARE.split(), *words, *(word for each in sets for word in ("--set", each))])


def _taken(words: list[str], flag: str) -> str | None:
    """Take a flag out of the words, and return its value; None where it is not there."""
    for place, word in enumerate(words):
        if word == flag and place + 1 < len(words):
            value = words[place + 1]
            del words[place : place + 2]
            return value
        if word.startswith(f"{flag}="):
            del words[place]
            return word.partition("=")[2]
    return None


def _of_script(axes: Sequence[_Axis], program: TriedProgram, ranks: int) -> str:
    words = list(program.command)
    sets = [f"{axis.script or axis.name}={','.join(axis.values)}" for axis in axes]
    for axis in axes:
        name = axis.script or axis.name
        if not axis.from_outside:
            _taken(words, f"--{name}")
            words += [f"--{name}", f"{{{name}}}"]
    if all(axis.name != "workers" for axis in axes) and ranks > 1:
        sets.append(f"workers={ranks}")
    flags = shlex.join([*_COMPARE.split(), *(word for each in sets for word in ("--set", each))])
    return f"{flags} -- {' '.join(word if '{' in word else shlex.quote(word) for word in words)}"


def needs_flag(remedy: Remedy, program: TriedProgram, load: Load | None) -> str | None:
    """Return the flag that a script needs for its trial and does not have in its command; None where all is there."""
    if program.is_known:
        return None
    names = [axis.script or axis.name for axis in _axes(remedy, program, load) if not axis.from_outside]
    given = [word.partition("=")[0] for word in program.command]
    return next((f"--{name}" for name in names if f"--{name}" not in given), None)
