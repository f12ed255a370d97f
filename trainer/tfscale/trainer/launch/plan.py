"""Plan of a run: the request of the command line, checked without TensorFlow.

An impossible run ends here, with one line. A request that only the devices can refuse, such as NCCL without a GPU, is
refused by the task that sees the devices.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfscale.core.errors import UsageError
from tfscale.trainer.input.input_flag import USUAL, InputParts, parse_input
from tfscale.trainer.launch.catalogue import ONE_OF_A_RUN, Entry, entries, find
from tfscale.trainer.launch.own_program import is_file, own_program
from tfscale.trainer.launch.program_flags import MOST
from tfscale.trainer.saving import model_files
from tfscale.trainer.saving.whole_files import check_file
from tfscale.trainer.slow.delay import Delay

LOOPS = ("fit", "custom")
FEWEST_EXAMPLES = 10


@dataclass(frozen=True, slots=True)
class Plan:
    """One run."""

    program: Entry
    strategy: Entry
    options: Mapping[str, str | int] = field(default_factory=dict)
    """Options of the strategy that were given."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Number of tasks by role, for the given roles."""
    techniques: tuple[tuple[Entry, str], ...] = ()
    """Each technique with the text behind its `=`."""
    loop: str = "fit"
    steps: int = 200
    batch: int | None = None
    """Examples of one replica's step; None stands for the program's own number."""
    global_batch: int | None = None
    """Examples of all replicas' step; None: `batch` times the number of replicas."""
    rate: float | None = None
    """Learning rate of one replica; None stands for the program's own."""
    seed: int = 0
    examples: int | None = None
    """Examples that a program with synthetic data makes; None stands for its usual number."""
    json: Path | None = None
    checkpoints: Path | None = None
    """Folder that the tasks share; the run goes on from the newest checkpoint in it."""
    save: tuple[Path, ...] = ()
    """Files and folders for the trained model."""
    tensorboard: Path | None = None
    """Folder for event files."""
    slow: Mapping[str, Delay] = field(default_factory=dict)
    """Delay by task."""
    input: InputParts = USUAL

    @property
    def local_tasks(self) -> dict[str, int]:
        """Number of tasks by role of a cluster on this machine."""
        numbers = {
            role: self.counts.get(role, usual) for role, (_, usual, _, _) in self.strategy.constants["ROLES"].items()
        }
        if self.input.service:
            numbers |= {"dispatcher": 1, "dataworker": self.input.service}
        return {role: number for role, number in numbers.items() if number}


def make_plan(given: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> Plan:
    """Return the plan of the given flags, by name; absent flags are None. Raises UsageError."""
    program, strategy = _program(given["program"]), find("strategy", given["strategy"])
    allowed = program.constants.get("STRATEGIES", (strategy.name,))
    if strategy.name not in allowed:
        raise UsageError(f"{program.name} does not run under {strategy.name}, only under {', '.join(allowed)}")
    _check_flags(given, strategy)
    _check_numbers(given)
    _check_examples(given, program)
    _check_files(given)
    loop = given.get("loop") or "fit"
    return Plan(
        program,
        strategy,
        options={name: given[name] for name in strategy.constants["OPTIONS"] if given.get(name) is not None},
        counts=dict(_counts(given, strategy)),
        techniques=tuple(_techniques(given.get("with"), {strategy.name, loop, keras_of(environment)})),
        save=tuple(given.get("save") or ()),
        slow=dict(_delays(given.get("slow") or (), strategy, loop)),
        input=_input(given.get("input"), strategy),
        **{name: given[name] for name in _AS_THEY_ARE if given.get(name) is not None},
    )


_AS_THEY_ARE = (
    *("loop", "steps", "batch", "global_batch", "rate", "seed", "examples"),
    *("json", "checkpoints", "tensorboard"),
)


def _program(name: str) -> Entry:
    if is_file(name):
        return own_program(name)
    program = find("program", name)
    if "main" in program.functions:
        raise UsageError(f"{name} has a command line of its own: tfscale-train run {name} --help")
    return program


def keras_of(environment: Mapping[str, str]) -> str:
    """Return the package that TensorFlow takes for `tf.keras`."""
    return "tf_keras" if environment.get("TF_USE_LEGACY_KERAS") in ("1", "true", "True") else "keras"


def flag(name: str) -> str:
    """Return the flag of an option's name: `--shard-bytes` for `shard_bytes`."""
    return f"--{name.replace('_', '-')}"


def flags_of(strategy: Entry) -> dict[str, Any]:
    """Return the flags that a strategy takes, by name: the allowed texts, least and most, or a sentence."""
    roles = strategy.constants["ROLES"].values()
    options: dict[str, Any] = strategy.constants["OPTIONS"]
    return options | {name: (least, most) for name, _, least, most in roles if name}


def _check_flags(given: Mapping[str, Any], strategy: Entry) -> None:
    """Refuse options of other strategies, and values that are not allowed."""
    own = flags_of(strategy)
    for name in dict.fromkeys(name for entry in entries("strategy").values() for name in flags_of(entry)):
        value, allowed = given.get(name), own.get(name)
        if value is None:
            continue
        if name not in own:
            takes = f"only {', '.join(map(flag, own))}" if own else "nor any other"
            replicas = strategy.constants["REPLICAS"]
            raise UsageError(f"{flag(name)}: {strategy.name} does not take it, {takes}; its replicas: {replicas}")
        if isinstance(allowed, tuple) and not _is_allowed(value, allowed):
            choices = (
                f"one of {', '.join(allowed)}" if isinstance(allowed[0], str) else "from {} to {}".format(*allowed)
            )
            raise UsageError(f"{flag(name)} {value}: use {choices} with {strategy.name}")


def _is_allowed(value: str | int, allowed: tuple[Any, ...]) -> bool:
    return value in allowed if isinstance(value, str) else bool(allowed[0] <= value <= allowed[1])


def _check_numbers(given: Mapping[str, Any]) -> None:
    for name, least in {"steps": 1, "batch": 1, "global_batch": 1, "seed": 0}.items():
        if (value := given.get(name)) is not None and value < least:
            raise UsageError(f"{flag(name)} {value}: at least {least}")
        if value is not None and value > MOST:
            raise UsageError(f"{flag(name)} {value}: at most {MOST}")
    if given.get("batch") and given.get("global_batch"):
        raise UsageError("--batch and --global-batch: give one of them, the other follows from the number of replicas")


def _check_examples(given: Mapping[str, Any], program: Entry) -> None:
    """Refuse a number of examples for a program that does not make them, or that leaves none to hold out."""
    if (number := given.get("examples")) is None:
        return
    if "EXAMPLES" not in program.constants:
        raise UsageError(f"--examples {number}: {program.name} has a fixed set of examples; leave --examples out")
    if number < FEWEST_EXAMPLES:
        raise UsageError(f"--examples {number}: at least {FEWEST_EXAMPLES}, since a tenth is held out")


def _check_files(given: Mapping[str, Any]) -> None:
    model_files.check_names(given.get("save") or ())
    if (path := given.get("json")) is not None:
        try:
            check_file(path)
        except ValueError as error:
            raise UsageError(f"--json {path}: {error}") from None
    for name in ("checkpoints", "tensorboard"):
        if (folder := given.get(name)) is not None and folder.exists() and not folder.is_dir():
            raise UsageError(f"{flag(name)} {folder}: is no folder")


def _counts(given: Mapping[str, Any], strategy: Entry) -> Iterator[tuple[str, int]]:
    for role, (name, *_) in strategy.constants["ROLES"].items():
        if name and given.get(name) is not None:
            yield role, given[name]


def _techniques(text: str | None, facts: set[str]) -> Iterator[tuple[Entry, str]]:
    """Yield the techniques of `accumulation=4,mixed=bfloat16`; refuse impossible combinations with these facts."""
    defined: dict[str, str] = {}
    words = [word.partition("=") for word in (text or "").split(",") if word]
    if text is not None and not words:
        raise UsageError(f"--with {text!r}: names no technique, see tfscale-train list")
    names = [name for name, _, _ in words]
    for name, _, value in words:
        entry = find("technique", name)
        if names.count(name) > 1:
            raise UsageError(f"--with {text}: {name} is given twice")
        for refused, reason in entry.constants.get("REFUSED", {}).items():
            together = (refused,) if isinstance(refused, str) else refused
            if facts.issuperset(together):
                raise UsageError(f"--with {name}: not with {' and '.join(together)}: {reason}")
        for function in sorted(entry.functions & set(ONE_OF_A_RUN)):
            if (other := defined.setdefault(function, name)) != name:
                raise UsageError(f"--with {other},{name}: not together, since both replace the same part ({function})")
        yield entry, value


def _input(text: str | None, strategy: Entry) -> InputParts:
    try:
        return parse_input(text, strategy.name)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _delays(texts: tuple[str, ...], strategy: Entry, loop: str) -> Iterator[tuple[str, Delay]]:
    """Yield the delay of each task from texts such as `worker:1=60ms`."""
    for text in texts:
        task, equals, delay = text.partition("=")
        if [each.partition("=")[0] for each in texts].count(task) > 1:
            raise UsageError(f"--slow {task} is given twice")
        if not equals:
            raise UsageError(f"--slow {text!r}: write TASK=DELAY, for example worker:1=60ms")
        if "SERVING" in strategy.constants or loop != "fit":
            raise UsageError(f"--slow {text}: a delay is put into `fit` of a task that runs the program itself")
        try:
            yield task, Delay.parse(delay)
        except ValueError as error:
            raise UsageError(f"--slow {error}") from None
