"""Place of a task in its cluster, and a check that this cluster has the tasks for a run. Without TensorFlow."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfscale.core.cluster.task import DATA_SERVICE, MASTER, Role
from tfscale.core.errors import UsageError
from tfscale.core.settings.precedence import CommandLine
from tfscale.trainer.launch.catalogue import Entry
from tfscale.trainer.launch.plan import Plan, flag
from tfscale.trainer.launch.program_flags import new_file


@dataclass(frozen=True, slots=True)
class Place:
    """Place of this process in the cluster."""

    role: str
    index: int
    tasks: Mapping[str, int]
    """Number of tasks by role."""

    @property
    def leads(self) -> bool:
        """True for the chief, or for worker 0 of a cluster without a chief: this task prints and writes the result."""
        return self.role == "chief" or (self.role == "worker" and self.index == 0 and "chief" not in self.tasks)


def read_place(environment: Mapping[str, str]) -> Place:
    """Return the place of this process by TF_CONFIG. Raises UsageError for a TF_CONFIG without a place."""
    try:
        document = json.loads(environment["TF_CONFIG"])
        task, cluster = document.get("task", {}), document.get("cluster", {}) or {"worker": [""]}
        tasks = {_role(name): _count(addresses) for name, addresses in cluster.items()}
        place = Place(_role(task.get("type", "worker")), int(task.get("index", 0)), tasks)
    except (AttributeError, TypeError, ValueError):
        example = '{"cluster": {"worker": ["HOST:PORT"]}, "task": {"type": "worker", "index": 0}}'
        raise UsageError(f"TF_CONFIG: is not of the form {example}") from None
    if place.index not in range(tasks.get(place.role, 0)):
        there = ", ".join(f"{number} {role}" for role, number in tasks.items())
        raise UsageError(f"TF_CONFIG: task {place.role}:{place.index} is not in its cluster, which has {there}")
    return place


def _role(name: str) -> str:
    return str(Role.CHIEF) if name == MASTER else name


def _count(addresses: Sequence[str] | Mapping[str, str]) -> int:
    if isinstance(addresses, str):
        raise TypeError("one address is no list of addresses")
    return len([*addresses])


def check_tasks(plan: Plan, tasks: Mapping[str, int], data_service: str = "") -> None:
    """Check the plan against the tasks of a cluster. Raises UsageError.

    Args:
        plan: the run.
        tasks: their number by role; a training task is told of no tasks of the tf.data service.
        data_service: address of this service, where the cluster has one and `tasks` does not tell.
    """
    training = {role: number for role, number in tasks.items() if role not in DATA_SERVICE}
    _check_service(plan.input.service, tasks.get("dataworker"), data_service)
    _check_roles(plan.strategy, plan.counts, training)
    _check_global_batch(plan, training)
    names = [f"{role}:{index}" for role, number in training.items() for index in range(number)]
    if missing := sorted(set(plan.slow) - set(names)):
        raise UsageError(f"--slow {missing[0]}: the tasks that train are {', '.join(names)}")


def _check_global_batch(plan: Plan, tasks: Mapping[str, int]) -> None:
    """Refuse a global batch that no number of devices can share. Only TensorFlow sees how many devices a worker has."""
    if "SERVING" in plan.strategy.constants:  # a step is that of one worker
        return
    workers, replicas = sum(tasks.values()), plan.options.get("replicas")
    number, name = (int(replicas), "replicas") if replicas else (workers, "workers")
    if plan.global_batch is not None and plan.global_batch % number:
        raise UsageError(f"--global-batch {plan.global_batch}: not divisible by {number} {name}")


def _check_service(asked: int, workers: int | None, address: str) -> None:
    if not asked and (workers or address):
        raise UsageError("--input: this cluster has a tf.data service: ask for it by service=N, or leave it out there")
    if asked and not (workers or address):
        raise UsageError(
            f"--input service={asked}: this cluster has none: add a dispatcher and dataworkers to its file"
        )
    if asked and workers not in (None, asked):
        raise UsageError(f"--input service={asked}: this cluster has {workers} dataworkers: write service={workers}")


def own_tasks(program: Entry, words: Sequence[str], there: Mapping[str, int] | None) -> dict[str, int]:
    """Return the number of tasks by role of a program that has a command line of its own. Raises UsageError.

    Args:
        program: names its roles in `ROLES`, as a strategy does; otherwise it is one task.
        words: its command line, of which only the flags of its roles and `--json` are read.
        there: tasks of the cluster in which it is started; None: one is made for it.
    """
    roles = program.constants.get("ROLES", {"worker": (None, 1, 1, 1)})
    parser = CommandLine(add_help=False, allow_abbrev=False)
    parser.add_argument("--json", type=new_file)  # what cannot be written is refused before anything is started
    for name, *_ in roles.values():
        if name:
            parser.add_argument(flag(name), type=int)
    given = vars(parser.parse_known_args(words)[0])
    counts = {role: given[name] for role, (name, *_) in roles.items() if name and given[name] is not None}
    tasks = dict(there or {role: counts.get(role, usual) for role, (_, usual, _, _) in roles.items()})
    _check_roles(program, counts, tasks)
    return {role: number for role, number in tasks.items() if number}


def _check_roles(entry: Entry, counts: Mapping[str, int], tasks: Mapping[str, int]) -> None:
    """Check the tasks of a cluster against the roles of a strategy or program, and against numbers that were given."""
    roles = entry.constants.get("ROLES", {"worker": (None, 1, 1, 1)})
    for role, number in tasks.items():
        if role not in roles:
            raise UsageError(f"{entry.name} has no {role}: its tasks are {', '.join(roles)}")
        if counts.get(role, number) != number:
            name = flag(roles[role][0])
            raise UsageError(f"{name} {counts[role]}: this cluster has {number}; leave {name} out")
    for role, (_, _, least, most) in roles.items():
        if not least <= tasks.get(role, 0) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            if role in counts:
                raise UsageError(f"{flag(roles[role][0])} {counts[role]}: use {wanted} with {entry.name}")
            raise UsageError(
                f"{entry.name}: this cluster has {tasks.get(role, 0)} tasks of the role {role}, not {wanted}"
            )
