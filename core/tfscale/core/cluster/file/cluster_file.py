"""Cluster file, TOML or JSON, as a spec: its tasks have the shape of `TF_CONFIG`'s `cluster`.

docs/reference/cluster.md shows every key.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from tfscale.core.cluster.cluster_spec import (
    ALONE_NAME,
    DEFAULT_AGENT_PORT,
    NOWHERE,
    Address,
    ClusterError,
    ClusterSpec,
    ProgramSpec,
    Tls,
    free_address,
    parse_address,
)
from tfscale.core.cluster.gpu_price import parse_gpu_price
from tfscale.core.cluster.recovery_policy import RecoveryPolicy, parse_recovery
from tfscale.core.cluster.task import Role, Task, parse_role
from tfscale.core.errors import UsageError

_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
KEYS = {"name", "cluster", "agents", "links", "program", "tls", "cost", "devices", "recovery", "spares"}


def load_cluster(path: Path) -> ClusterSpec:
    """Read a cluster file, TOML or JSON by its suffix (anything but .json is TOML).

    Raises ClusterError, whose message is one line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ClusterError(f"{path}: no such cluster file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterError(f"{path}: cannot be read: {error}") from None
    try:
        document = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise ClusterError(f"{path}: not {kind}: {error}") from None
    return parse_cluster(document, name=_run_name(path), where=str(path), base=path.parent)


def _run_name(path: Path) -> str:
    """Return the stem of the file, without characters that a folder's name cannot have."""
    return re.sub(r"[^\w.-]+", "-", path.stem).lstrip(".-") or "cluster"


def check_run_name(name: object) -> str:
    """Return the name of a run, which becomes that of a folder and a part of messages. Raises UsageError."""
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.-]*", name):
        raise UsageError(f"name must be letters, digits, '_', and after the first also '.' and '-', not {name!r}")
    return name


def read_cluster(text: str, *, name: str, where: str) -> ClusterSpec:
    """Return the spec in the JSON of a cluster file. Raises ClusterError, whose message begins with `where`."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ClusterError(f"{where}: its cluster is not JSON: {error}") from None
    return parse_cluster(document, name=name, where=where, base=Path())


def parse_cluster(document: object, *, name: str, where: str, base: Path) -> ClusterSpec:
    """Return the spec of a parsed cluster file; relative paths in it start from the folder `base`.

    Raises ClusterError, whose message begins with `where`.
    """
    try:
        return _parse(document, name, base)
    except UsageError as error:
        raise ClusterError(f"{where}: {error}") from None


def _parse(document: object, name: str, base: Path) -> ClusterSpec:
    top = _table(document, "the file")
    _refuse_unknown(top, KEYS, "the file")
    name = check_run_name(top.get("name", name))
    tasks = _parse_tasks(top.get("cluster"))
    given = {
        _member(key, tasks, "[agents]"): parse_address(value, f'[agents] "{key}"')
        for key, value in _table(top.get("agents", {}), "[agents]").items()
    }
    spares = _parse_spares(_table(top.get("spares", {}), "[spares]"), tasks)
    others = (*tasks.values(), *given.values(), *spares, *spares.values())
    agents = _all_agents(tasks, given, {each.plain for each in others})
    _refuse_duplicates(tasks, agents, spares)
    recovery = parse_recovery(_table(top["recovery"], "[recovery]")) if "recovery" in top else None
    _refuse_more_than_all(recovery, tasks)
    links = {}
    for key, value in _table(top.get("links", {}), "[links]").items():
        links[key if key == "default" else str(_member(key, tasks, "[links]"))] = _parse_speed(value, key)
    return ClusterSpec(
        name=name,
        tasks=tasks,
        agents=agents,
        link_speeds=links,
        program=_parse_program(_table(top.get("program", {}), "[program]")),
        tls=_parse_tls(_table(top["tls"], "[tls]"), base) if "tls" in top else None,
        gpu_price=parse_gpu_price(_table(top["cost"], "[cost]")) if "cost" in top else None,
        device_peak=_parse_peak(_table(top["devices"], "[devices]")) if "devices" in top else None,
        recovery=recovery,
        spares=spares,
    )


def _parse_tasks(cluster: object) -> dict[Task, Address]:
    if cluster == ALONE_NAME:
        return {Task(Role.WORKER, 0): NOWHERE}
    tasks: dict[Task, Address] = {}
    for key, addresses in _table(cluster, "[cluster]").items():
        role = parse_role(key)
        if not isinstance(addresses, list):
            raise UsageError(f'[cluster] {key} must be a list of "host:port"')
        for index, address in enumerate(addresses):
            task = Task(role, index)
            if task in tasks:
                raise UsageError(f"[cluster] {key}: {task} is there twice (master and chief are the same)")
            tasks[task] = parse_address(address, f"[cluster] {key}[{index}]")
    if not tasks:
        raise UsageError('[cluster] names no task: write for example worker = ["10.0.0.2:2222", "10.0.0.3:2222"]')
    count = Counter(task.role for task in tasks)
    for role in (Role.CHIEF, Role.DISPATCHER):
        if count[role] > 1:
            raise UsageError(f"[cluster] {role}: there can be only one")
    if bool(count[Role.DISPATCHER]) != bool(count[Role.DATAWORKER]):
        missing = next(role for role in (Role.DISPATCHER, Role.DATAWORKER) if not count[role])
        raise UsageError(f"[cluster] {missing} is missing: a tf.data service has one dispatcher, and dataworkers")
    return dict(sorted(tasks.items()))


def _parse_spares(table: Mapping[str, Any], tasks: Mapping[Task, Address]) -> dict[Address, Address]:
    """Return each spare's address for tasks; a file without one means the spare's host and the lead's port."""
    _refuse_unknown(table, {"agents", "tasks"}, "[spares]")
    if not table:
        return {}
    if NOWHERE in tasks.values():
        raise UsageError("[spares]: a task that belongs to no cluster has none")
    agents = _addresses(table.get("agents"), "agents")
    port = next(iter(tasks.values())).port
    places = _addresses(table["tasks"], "tasks") if "tasks" in table else [Address(each.host, port) for each in agents]
    if len(places) != len(agents):
        raise UsageError(f"[spares] tasks has {len(places)} addresses, and agents {len(agents)}: give one for each")
    if twice := [agent for agent, count in Counter(agents).items() if count > 1]:
        raise UsageError(f"[spares] agents names {twice[0]} twice: each needs its own address")
    return dict(zip(agents, places, strict=True))


def _all_agents(
    tasks: Mapping[Task, Address], given: Mapping[Task, Address], taken: Collection[Address]
) -> dict[Task, Address]:
    """Return the agent of each task: its own in the file, else the next free port of the task's host from 7070 on.

    Whoever reads the same file finds the same ports.
    """
    agents: dict[Task, Address] = {}
    ports: dict[str, int] = {}
    for task, address in tasks.items():
        host = address.plain.host
        agents[task] = given.get(task) or free_address(address.host, ports.get(host, DEFAULT_AGENT_PORT), taken)
        if task not in given:
            ports[host] = agents[task].port + 1
    return agents


def _addresses(value: object, key: str) -> list[Address]:
    if not isinstance(value, list):
        raise UsageError(f'[spares] {key} must be a list of "host:port"')
    return [parse_address(each, f"[spares] {key}[{place}]") for place, each in enumerate(value)]


def _refuse_more_than_all(recovery: RecoveryPolicy | None, tasks: Mapping[Task, Address]) -> None:
    fewest, count = recovery and recovery.min_workers, sum(task.role is Role.WORKER for task in tasks)
    if fewest and fewest > count:
        raise UsageError(f"[recovery] min_workers is {fewest}, and [cluster] has {count} workers")


def _parse_speed(value: object, key: str) -> float:
    match = re.fullmatch(r"([\d.]+)\s*([kmgt]?)bit/s", value.strip().lower()) if isinstance(value, str) else None
    try:
        speed = float(match[1]) * _UNITS[match[2]] if match else 0.0
    except ValueError:
        speed = 0.0
    if speed <= 0:
        raise UsageError(f'[links] {key}: {value!r} is not a speed: write for example "10Gbit/s"')
    return speed


def _parse_peak(table: Mapping[str, Any]) -> float:
    _refuse_unknown(table, {"peak_tflops"}, "[devices]")
    peak = table.get("peak_tflops")
    if isinstance(peak, bool) or not isinstance(peak, int | float) or not 0 < peak < 1e6:
        raise UsageError(f"[devices] peak_tflops: {peak!r} is not a peak in TFLOP/s: write for example 989")
    return peak * _UNITS["t"]


def _parse_program(table: Mapping[str, Any]) -> ProgramSpec:
    _refuse_unknown(table, {"command", "directory", "environment"}, "[program]")
    command = table.get("command", [])
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        raise UsageError('[program] command must be a list of words, for example ["python", "train.py"]')
    directory = table.get("directory")
    if directory is not None and not isinstance(directory, str):
        raise UsageError("[program] directory must be a path")
    environment = _table(table.get("environment", {}), "[program] environment")
    for key, value in environment.items():
        if not isinstance(value, str | int | float):
            raise UsageError(f"[program] environment {key} must be a string or a number")
    return ProgramSpec(tuple(command), directory, {key: str(value) for key, value in environment.items()})


def _parse_tls(table: Mapping[str, Any], base: Path) -> Tls:
    names = ("ca", "certificate", "key")
    _refuse_unknown(table, {*names, "roles"}, "[tls]")
    for name in names:
        if not isinstance(table.get(name), str):
            raise UsageError(f"[tls] {name} is missing: give the path of a PEM file")
    if (roles := table.get("roles", "on")) not in ("on", "off"):
        raise UsageError(f'[tls] roles: {roles!r} must be "on" or "off"')
    ca, certificate, key = (base / table[name] for name in names)
    return Tls(ca, certificate, key, roles == "on")


def _table(value: object, where: str) -> Mapping[str, Any]:
    if value is None:
        raise UsageError(f"{where} is missing")
    if not isinstance(value, dict):
        raise UsageError(f"{where} must be a table")
    return value


def _member(key: str, tasks: Mapping[Task, Address], where: str) -> Task:
    task = Task.parse(key)
    if task not in tasks:
        raise UsageError(f"{where} {key!r}: the cluster has no such task, only {', '.join(map(str, tasks))}")
    return task


def _refuse_unknown(table: Mapping[str, Any], allowed: set[str], where: str) -> None:
    for key in table:
        if key not in allowed:
            raise UsageError(f"{where} has no key {key!r}: use one of {', '.join(sorted(allowed))}")


def _refuse_duplicates(
    tasks: Mapping[Task, Address], agents: Mapping[Task, Address], spares: Mapping[Address, Address]
) -> None:
    places: dict[Address, list[Address]] = defaultdict(list)
    for address in (*tasks.values(), *agents.values(), *spares, *spares.values()):
        places[address.plain].append(address)
    for plain, names in places.items():
        if len(names) > 1:
            users = [f"{task}" for task in tasks if tasks[task].plain == plain]
            users += [f"the agent of {task}" for task in agents if agents[task].plain == plain]
            users += [f"the spare {spare}" for spare, at in spares.items() if plain in (spare.plain, at.plain)]
            name, *others = map(str, dict.fromkeys(names))
            alias = f", that is {', that is '.join(others)}," if others else ""
            where = "" if set(names) & set(tasks.values()) else ", in [agents] of a cluster file (--cluster FILE)"
            used = f"{name}{alias} is used {len(names)} times, by {' and '.join(users)}"
            raise UsageError(f"{used}: each needs its own{where}")
