"""Faults that a checkup shows: of single hosts, of the ways between them, and of the cluster as a whole."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from tfscale.core.cluster.placement.electorate import electorate_of
from tfscale.core.cluster.placement.placement import may_move
from tfscale.core.cluster.strategy import ASYNCHRONOUS, SYNCHRONOUS, family_of, find_strategy
from tfscale.core.cluster.task import DATA_SERVICE, Role, Task
from tfscale.core.preflight.checkup import Checkup, Fault
from tfscale.core.preflight.examination import Contact, Examination, FolderSpace
from tfscale.core.text import bit_rate, data_size, listing

CLOCK_APART = 0.5
"""Seconds by which clocks may differ before times of several hosts mislead."""
LEAST_SPACE = 1 << 30
"""Free bytes below which a disk is a fault: the size of a checkpoint of 90 million weights with Adam's two moments."""
LEAST_STATE = 64 << 20
"""Bytes free in the state folder: one log before it is rotated."""
LEAST_MEMORY = 1 << 30
"""Available bytes below which memory is a fault.

Below, the import of TensorFlow and a model may end in the kernel's killer; above, a small host is called unfit.
"""
SLOW_TRANSFER = 0.5
"""Share of the median rate, or of the rate in `[links]`, below which a transfer is a fault."""
_LOOPBACK = ("127.", "::1")


def faults_of(checkup: Checkup) -> list[Fault]:
    """Return all faults; faults that stop a training come first."""
    checks: tuple[Callable[[Checkup], Iterable[Fault]], ...] = (
        _silent_agents, _runs, _hosts_too_few, _roles, _taken_ports, _unreached, _names, _programs, _versions, _scripts,
        _clocks, _spaces, _memory, _gpus, _transfers,
    )  # fmt: skip
    return [fault for check in checks for fault in check(checkup)]


def _silent_agents(checkup: Checkup) -> Iterator[Fault]:
    by_problem: dict[str, list[Task]] = defaultdict(list)
    for task, answer in checkup.answers.items():
        if answer.examination is None:
            by_problem[answer.problem].append(task)
    for problem, tasks in by_problem.items():
        agents = listing([f"{task} ({checkup.spec.agents[task]})" for task in tasks])
        yield Fault("agent", tuple(tasks), f"no answer of the agent of {agents}: {problem}")


def _runs(checkup: Checkup) -> Iterator[Fault]:
    values = {task: answer.run for task, answer in checkup.answers.items()}
    yield from _unequal("agent", "the run", values, "give all the same --run")


def _hosts_too_few(checkup: Checkup) -> Iterator[Fault]:
    """Return the two hosts that can never agree without each other, where the cluster file lets tasks move."""
    spec = checkup.spec
    if may_move(spec) and (why := electorate_of(spec).why_neither_alone):
        yield Fault("agent", tuple(spec.tasks), why)


def _roles(checkup: Checkup) -> Iterator[Fault]:
    """Compare the roles of the cluster with the strategy, as far as that is known."""
    spec = checkup.spec
    strategies = {found.strategy for found in checkup.examined.values() if found.strategy}
    strategy = next(iter(strategies)) if len(strategies) == 1 else None
    by_role: dict[Role, list[Task]] = defaultdict(list)
    for task in spec.tasks:
        by_role[task.role].append(task)
    family, fault = family_of(strategy, by_role), partial(Fault, "role")
    name = strategy or "ParameterServerStrategy"
    if len(chiefs := by_role[Role.CHIEF]) > 1:
        yield fault(tuple(chiefs), f"{len(chiefs)} chiefs: TensorFlow takes one: make the others workers")
    if family is ASYNCHRONOUS:
        everybody = tuple(by_role[Role.PS] + by_role[Role.WORKER])
        for role, what in ((Role.CHIEF, "nobody gives the workers their steps"), (Role.WORKER, "nobody computes")):
            if not by_role[role]:
                yield fault(everybody, f"no {role} under {name}: {what}: add one to [cluster]")
        if not by_role[Role.PS]:
            yield fault(everybody, f"no ps under {name}: nobody holds the variables: add one to [cluster]")
    elif by_role[Role.PS]:
        servers = tuple(by_role[Role.PS])
        yield fault(servers, f"{_names_of(servers)}: {name} uses no parameter server: they wait for ever: remove them")
    if family is SYNCHRONOUS and sum(len(by_role[role]) for role in family.in_step) == 1:
        yield fault(tuple(spec.tasks)[:1], f"one worker alone under {name}: nothing is distributed: add workers")
    if strategies and strategy is None:
        values = {task: found.strategy or "" for task, found in checkup.examined.items()}
        yield from _unequal("role", "the strategy", values, "give all the same program")
    if strategy is not None and find_strategy([strategy]) is None:
        yield fault((), f"{strategy} is no strategy that this version knows: its roles are not checked")


def _taken_ports(checkup: Checkup) -> Iterator[Fault]:
    for task, found in checkup.examined.items():
        if found.port_problem:
            address = checkup.spec.tasks[task]
            yield Fault("port", (task,), f"{task}: its port {address} is {found.port_problem}")


def _unreached(checkup: Checkup) -> Iterator[Fault]:
    """Return a sentence about each target that agents do not reach; agents with the same reason share a sentence."""
    tried: dict[tuple[str, bool], int] = defaultdict(int)
    failed: dict[tuple[str, bool, str, str], list[Task]] = defaultdict(list)
    examined = {str(task): found for task, found in checkup.examined.items()}
    for source, contacts in checkup.contacts.items():
        for contact in contacts:
            if tells(examined.get(contact.task), contact):
                tried[contact.task, contact.is_agent] += 1
                if contact.problem:
                    failed[contact.task, contact.is_agent, contact.address, contact.problem].append(source)
    for (name, is_agent, address, problem), sources in failed.items():
        whom = f"the agent of {name}" if is_agent else name
        everybody = len(sources) == tried[name, is_agent] > 1
        subject = "nobody reaches" if everybody else f"{_names_of(sources)} cannot reach"
        advice = "its name" if ": " in problem else "the firewall there, and the way to it"
        sentence = f"{subject} {whom} at {address}: {problem}: look at {advice}"
        yield Fault("reached", (Task.parse(name),), sentence)


def tells(found: Examination | None, contact: Contact) -> bool:
    """Decide whether a contact says anything about its target, by the target's own examination.

    A refused connection says nothing about a task whose agent was not examined, whose port another program holds, or
    which has no server: it has just started, or only evaluates.
    """
    if found is None:
        return False
    if contact.is_agent:
        return True
    return contact.problem != "connection refused" if found.task_lives else found.port > 0


def _names(checkup: Checkup) -> Iterator[Fault]:
    """Return faults of host names that are unknown, lead to the host itself, or lead to several addresses."""
    hosts = {address.host for address in checkup.spec.tasks.values()}
    if len(hosts) < 2:
        return
    loopback = [task for task, address in checkup.spec.tasks.items() if address.is_loopback]
    if 0 < len(loopback) < len(checkup.spec.tasks):
        what = "a loopback address in a cluster of several hosts, which others cannot reach"
        yield Fault("names", tuple(loopback), f"{_names_of(loopback)}: {what}: give the host's own address")
    unknown: dict[tuple[str, str], list[Task]] = defaultdict(list)
    back: dict[tuple[str, str], list[Task]] = defaultdict(list)
    places: dict[str, dict[Task, str]] = defaultdict(dict)
    for task, found in checkup.examined.items():
        for each in found.names:
            if each.name == "localhost" or each.name not in hosts:
                continue
            if each.problem:
                unknown[each.name, each.problem].append(task)
            elif loops := [address for address in each.addresses if address.startswith(_LOOPBACK)]:
                back[each.name, loops[0]].append(task)
            else:
                places[each.name][task] = ", ".join(sorted(each.addresses))
    for (name, problem), tasks in unknown.items():
        yield Fault("names", tuple(tasks), f"{_names_of(tasks)}: {name} is not known ({problem}): add it to /etc/hosts")
    for (name, address), tasks in back.items():
        what = f"{name} is {address} there, which no other host reaches: correct /etc/hosts"
        yield Fault("names", tuple(tasks), f"{_names_of(tasks)}: {what}")
    for name, values in places.items():
        yield from _unequal("names", f"the address of {name}", values, "correct /etc/hosts or the name server")


def _programs(checkup: Checkup) -> Iterator[Fault]:
    for task, found in checkup.examined.items():
        if found.program.problem and not found.program.problem.startswith("no Python"):
            yield Fault("python", (task,), f"{task}: {found.program.problem}: look at its environment")
        elif found.program.python and not found.program.tensorflow and task.role not in DATA_SERVICE:
            python = found.program.interpreter
            yield Fault(
                "tensorflow", (task,), f"{task}: no TensorFlow in the environment of {python}: install it there"
            )


def _versions(checkup: Checkup) -> Iterator[Fault]:
    for column, what in (("python", "Python"), ("tensorflow", "TensorFlow"), ("keras", "Keras")):
        values = {task: getattr(found.program, column) for task, found in checkup.examined.items()}
        if column == "python":
            values = {task: version.rpartition(".")[0] for task, version in values.items()}
        yield from _unequal(column, f"the version of {what}", values, "install the same on all hosts")


def _scripts(checkup: Checkup) -> Iterator[Fault]:
    """Compare the scripts within each role: tasks of different roles may run different scripts."""
    for role in Role:
        values = {task: found.program.script_hash[:8] for task, found in checkup.examined.items() if task.role is role}
        yield from _unequal("script", f"the script of {role}s", values, "copy the same file to all hosts")


def _clocks(checkup: Checkup) -> Iterator[Fault]:
    clocks = {task: answer.clock for task, answer in checkup.answers.items() if answer.clock is not None}
    if len(clocks) < 2:
        return
    usual = min(clocks, key=lambda task: abs(clocks[task] - statistics.median_low(clocks.values())))
    for task, clock in clocks.items():
        apart, doubt = clock - clocks[usual], checkup.answers[task].doubt + checkup.answers[usual].doubt
        if abs(apart) - doubt > CLOCK_APART:
            how = f"{abs(apart):.1f} s {'ahead of' if apart > 0 else 'behind'} that of {usual}"
            yield Fault("clock", (task,), f"{task}: its clock is {how}: set both (chronyc makestep, timedatectl)")


def _spaces(checkup: Checkup) -> Iterator[Fault]:
    for task, found in checkup.examined.items():
        for space in found.disks:
            if why := _why_no_space(space):
                yield Fault("disk", (task,), f"{task}: its {space.purpose} {space.path}: {why}")


def _why_no_space(space: FolderSpace) -> str:
    least = LEAST_SPACE if space.purpose == "working folder" else LEAST_STATE
    if space.problem == "not writable":  # a program need not write beside itself
        return "" if space.purpose == "working folder" else "not writable: give --state-dir"
    if space.problem:
        return f"{space.problem}: look at that disk"
    return f"{data_size(space.free)} free: make room" if space.free < least else ""


def _memory(checkup: Checkup) -> Iterator[Fault]:
    for task, found in checkup.examined.items():
        if found.memory_available < LEAST_MEMORY and not found.task_lives:
            what = f"{data_size(found.memory_available)} of memory available of {data_size(found.memory_total)}"
            yield Fault("memory", (task,), f"{task}: {what}: see who uses it")


def _gpus(checkup: Checkup) -> Iterator[Fault]:
    for task, found in checkup.examined.items():
        visible = _visible(found)
        if found.gpus_seen is not None and found.gpus_seen < visible:
            what = f"TensorFlow sees {found.gpus_seen} of {visible} GPUs"
            yield Fault("gpus", (task,), f"{task}: {what}: see the reason on the task's page")
    for role in Role:
        values = {task: str(_visible(found)) for task, found in checkup.examined.items() if task.role is role}
        yield from _unequal(
            "gpus", f"the number of GPUs of {role}s", values, "look at drivers and CUDA_VISIBLE_DEVICES"
        )


def _visible(found: Examination) -> int:
    """Return how many of the host's GPUs the task may use."""
    if found.visible_devices is None:
        return found.gpus
    named = [each for each in found.visible_devices.split(",") if each.strip() not in ("", "-1")]
    return min(found.gpus, len(named))


def _transfers(checkup: Checkup) -> Iterator[Fault]:
    rates = [each.rate for each in checkup.transfers if each.rate is not None]
    for each in checkup.transfers:
        way = f"{each.source} to {each.target}"
        if each.rate is None:
            yield Fault("bandwidth", (each.source, each.target), f"{way}: not measured: {each.problem}")
            continue
        given = checkup.spec.link_speed(each.source)
        usual = statistics.median(rates)
        if given is not None and each.rate < SLOW_TRANSFER * given:
            against = f"{bit_rate(given)} by [links]"
        elif len(rates) > 2 and each.rate < SLOW_TRANSFER * usual:
            against = f"{bit_rate(usual)} between most others"
        else:
            continue
        advice = "look at cable, port and settings (ethtool)"
        yield Fault("bandwidth", (each.source, each.target), f"{way}: {bit_rate(each.rate)}, {against}: {advice}")


def _unequal(column: str, what: str, values: Mapping[Task, str], advice: str) -> Iterator[Fault]:
    """Return the tasks whose value differs from that of most tasks; empty values are unknown, and not compared."""
    tasks_of: dict[str, list[Task]] = defaultdict(list)
    for task, value in values.items():
        if value:
            tasks_of[value].append(task)
    if len(tasks_of) < 2:
        return
    usual, *others = sorted(tasks_of, key=lambda value: -len(tasks_of[value]))
    ways = [f"{value} on {_names_of(tasks_of[value])}" for value in (usual, *others)]
    concerned = tuple(task for value in others for task in tasks_of[value])
    yield Fault(column, concerned, f"{what} differs: {'; '.join(ways[:4])}: {advice}")


def _names_of(tasks: Iterable[Task]) -> str:
    return listing([str(task) for task in tasks])
