"""Facts about runs: whether two runs have the same program and hardware, and their differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from hashlib import sha256
from pathlib import PurePath

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.core.records.frame import Description, Frame
from tfscale.core.records.probe_status import ProbeStatus

_MOST_HOSTS = 64
"""Hosts that are kept by name: of more hosts a sentence says only that they are others, and names would fill the
file."""
_LONGEST_COMMAND, _LONGEST_ARGUMENTS = 4000, 60
"""Characters of a command that are kept, and of changed arguments that a sentence quotes: listings of some hundred
flags are whole, and a sentence stays within three lines."""


@dataclass(frozen=True, slots=True)
class BaselineKey:
    """Program, number of replicas and hardware: only runs with the same key are comparable."""

    program: str
    size: int
    hardware: str


@dataclass(frozen=True, slots=True)
class Work:
    """Facts about the work of a step: a step of other work takes another time, and that is no fault.

    None is unknown; for micro-batches and local steps None is one.
    """

    batch: int | None = None
    """Examples of a step, all replicas together."""
    micro_batches: int | None = None
    local_steps: int | None = None
    dtype_policy: str | None = None

    @classmethod
    def of(cls, probe: ProbeStatus | None) -> Work:
        if probe is None:
            return cls()
        return cls(probe.examples_per_step, probe.micro_batches, probe.local_steps, probe.dtype_policy)

    def a_replica(self, size: int) -> tuple[object, ...]:
        """Return the facts that define the work of one of `size` replicas."""
        return self.batch and self.batch / size, self.micro_batches, self.local_steps, self.dtype_policy


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts that may explain why steps take longer than those of another attempt; empty or None unknown."""

    work: Work = field(default_factory=Work)
    tensorflow: str | None = None
    keras: str | None = None
    command: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    directory: str = ""
    """Folder in which the program was started."""
    model: int | None = None
    """Bytes of all gradients as dense tensors, which differ from model to model."""
    files: tuple[str, ...] = ()
    """Files of code that the command names, each with the begin of its SHA-256."""

    def is_same_work(self, other: RunFacts) -> bool:
        """Decide whether a step is the same work; for an unknown model, by equal arguments."""
        if self.model is None or other.model is None:
            return self.work == other.work and self.command == other.command
        return self.work == other.work


@dataclass(frozen=True, slots=True)
class Trained:
    """Training that steps belong to: its size in replicas, and its facts."""

    size: int
    facts: RunFacts


def changes(before: RunFacts, now: RunFacts) -> Iterator[str]:
    """Yield each difference as a phrase such as `TensorFlow 2.17.0, before 2.16.1`."""
    old, new = before.work, now.work
    if old.batch and new.batch and old.batch != new.batch:
        yield f"batch {new.batch:,}, before {old.batch:,}"
    if old.micro_batches != new.micro_batches:
        yield f"micro-batches {new.micro_batches or 1}, before {old.micro_batches or 1}"
    if old.local_steps != new.local_steps:
        yield f"local steps {new.local_steps or 1}, before {old.local_steps or 1}"
    if old.dtype_policy and new.dtype_policy and old.dtype_policy != new.dtype_policy:
        yield f"types {new.dtype_policy}, before {old.dtype_policy}"
    if before.tensorflow and now.tensorflow and before.tensorflow != now.tensorflow:
        yield f"TensorFlow {now.tensorflow}, before {before.tensorflow}"
    if before.keras and now.keras and before.keras != now.keras:
        yield f"{now.keras}, before {before.keras}"
    if before.command and now.command and before.command != now.command:
        yield _changed_arguments(before.command, now.command)
    if before.files and now.files and before.files != now.files:
        added, gone = sorted({*now.files} - {*before.files}), sorted({*before.files} - {*now.files})
        yield f"code {_some(added) or 'fewer files'}, before {_some(gone) or 'fewer files'}"
    if before.directory and now.directory and before.directory != now.directory:
        yield f"working folder {now.directory}, before {before.directory}"
    if before.hosts and now.hosts and before.hosts != now.hosts:
        yield _changed_hosts(before.hosts, now.hosts)


def is_all_known(facts: RunFacts) -> bool:
    """Decide whether all facts are known in which two attempts can differ."""
    return bool(facts.tensorflow and facts.command and facts.hosts and facts.work.batch)


def _changed_arguments(before: Sequence[str], now: Sequence[str]) -> str:
    parts = [
        (now[low:high], before[first:last])
        for tag, first, last, low, high in SequenceMatcher(None, before, now, autojunk=False).get_opcodes()
        if tag != "equal"
    ]
    new, old = (_short(" ".join(" ".join(part[side]) for part in parts)) for side in (0, 1))
    return f"arguments {new or 'fewer'}, before {old or 'fewer'}"


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _LONGEST_ARGUMENTS else f"{text[: _LONGEST_ARGUMENTS - 3]}..."


def _changed_hosts(before: Sequence[str], now: Sequence[str]) -> str:
    new, old = sorted(set(now) - set(before)), sorted(set(before) - set(now))
    if len(now) > 1 and len(new) != len(now):
        return f"hosts {_some(new) or 'fewer'}, before {_some(old) or 'fewer'}"
    return f"{'all hosts' if len(now) > 1 else 'host'} {_some(new)}, before {_some(old)}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


class RunIdentity:
    """Collector of the facts that agents report of their tasks; it gives the key and the facts of the run."""

    def __init__(self) -> None:
        self._described: dict[str, Description] = {}
        self._hardware: dict[str, tuple[int, tuple[str, ...]]] = {}
        """(cores of its host, names of its host's GPUs) by task."""

    def describe(self, task: str, description: Description) -> None:
        self._described[task] = description

    def observe(self, task: str, frame: Frame) -> None:
        """Take in the hardware of a task's host."""
        known = self._hardware.get(task)
        # NVML may answer late. What is known is not decoded again, as the counters of a frame would be here.
        if (known is None or (frame.gpu_count and not known[1])) and frame.host is not None:
            self._hardware[task] = frame.host.cores, tuple(sorted(gpu.name for gpu in frame.gpus))

    def attempt(self, tasks: Sequence[str], observed: Mapping[str, ObservedTask]) -> str:
        """Return the name of the present attempt, the same for every console; empty where unknown."""
        first = self._described.get(tasks[0]) if tasks else None
        status = observed[tasks[0]].status if tasks and tasks[0] in observed else None
        if first is None or status is None or status.started is None:
            return ""
        return f"{first.run} {status.generation}.{status.attempt} {status.started:.0f}"

    def key(self, tasks: Sequence[str], probe: ProbeStatus | None) -> BaselineKey | None:
        """Return the key of these tasks' training; None where it is unknown."""
        first = self._described.get(tasks[0]) if tasks else None
        if first is None or probe is None or any(name not in self._hardware for name in tasks):
            return None
        return BaselineKey(_program(first, probe), probe.replicas or len(tasks), self._kinds(tasks))

    def facts(self, tasks: Sequence[str], probe: ProbeStatus | None) -> RunFacts:
        first = self._described.get(tasks[0]) if tasks else None
        hosts = sorted({self._described[name].host for name in tasks if name in self._described})
        if len(hosts) > _MOST_HOSTS:
            hosts = [f"{len(hosts)} hosts ({sha256(' '.join(hosts).encode()).hexdigest()[:8]})"]
        return RunFacts(
            work=Work.of(probe),
            tensorflow=probe.tensorflow if probe else None,
            keras=probe.keras if probe else None,
            command=_kept(first.command) if first else (),
            hosts=tuple(hosts),
            directory=first.directory if first else "",
            model=_model(probe),
            files=first.files if first else (),
        )

    def _kinds(self, tasks: Sequence[str]) -> str:
        """Return the kinds of these tasks' hosts as one text."""
        hosts = [self._described[name].host if name in self._described else name for name in tasks]
        shared = Counter(hosts)
        kinds = Counter((*self._hardware[name], shared[host]) for name, host in zip(tasks, hosts, strict=True))
        counted = {
            f"{cores} cores, {_gpu_names(gpus)}, {sharing} a host": number
            for (cores, gpus, sharing), number in sorted(kinds.items())
        }
        return "; ".join(counted if len(counted) == 1 else (f"{number} x {kind}" for kind, number in counted.items()))


def _gpu_names(gpus: Sequence[str]) -> str:
    return " + ".join(f"{number} {name}" for name, number in Counter(gpus).items()) or "no GPU"


def _kept(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command, cut to the kept length."""
    kept, left = [], _LONGEST_COMMAND
    for argument in command:
        if (left := left - len(argument)) < 0:
            break
        kept.append(argument)
    return tuple(kept)


def _model(probe: ProbeStatus | None) -> int | None:
    """Return the bytes of a step's gradients as dense tensors: the number of gathered sparse rows varies."""
    if probe is None or not probe.reduced_bytes_per_step:
        return None
    return probe.reduced_bytes_per_step - (probe.gathered_bytes_per_step or 0) + (probe.dense_bytes_per_step or 0)


def _program(description: Description, probe: ProbeStatus) -> str:
    model = _model(probe)
    where = f"in {description.directory}" if description.directory else f"run {description.run}"
    name, strategy = program_name(description.command), probe.strategy or "no strategy"
    return f"{name}, {strategy}, {where if model is None else f'{model} bytes'}"


def program_name(command: Sequence[str]) -> str:
    """Return the name of the script or module that a command starts: `train.py`, `-m pkg.train`, `bash train.sh`."""
    names = [PurePath(word).name for word in command]
    if not names:
        return ""
    if "-m" in command[:-1]:
        return f"-m {command[command.index('-m') + 1]}"
    script = next((name for name, word in zip(names[1:], command[1:], strict=True) if not word.startswith("-")), "")
    if names[0].startswith("python"):
        return script
    return f"{names[0]} {script}".strip()
