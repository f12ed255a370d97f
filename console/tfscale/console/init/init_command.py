"""`tfscale-console init`: writes a cluster file from a few words, and asks the doctor about it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from tfscale.console.doctor.doctor_command import look_at_new
from tfscale.console.init.commented_file import commented_file
from tfscale.console.init.host_ranges import hosts
from tfscale.console.settings.options import INIT
from tfscale.core.access.certificate import SecurityError
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.file.cluster_file import check_run_name, load_cluster, parse_cluster
from tfscale.core.cluster.task import Role
from tfscale.core.errors import UsageError
from tfscale.core.files.whole_file import write_whole
from tfscale.core.settings.exit_status import ExitStatus
from tfscale.core.settings.precedence import flag
from tfscale.core.text import plural

_FILE = Path("cluster.toml")
_PORT = 2222
_ROLES = {"chief": Role.CHIEF, "workers": Role.WORKER, "ps": Role.PS, "evaluator": Role.EVALUATOR}


def run_init(flags: Mapping[str, Any], environment: Mapping[str, str]) -> int:
    """Write the file, tell what the doctor finds, and return the exit status. Raises UsageError."""
    values = {
        name: text if INIT[name].is_switch else INIT[name].parse(text, flag(name)) for name, text in flags.items()
    }
    if values.get("schema"):
        print(files("tfscale.core.cluster.file").joinpath("cluster.schema.json").read_text(), end="")
        return ExitStatus.WELL
    path: Path = values.get("out", _FILE)
    name = check_run_name(values["name"]) if "name" in values else None
    text = commented_file(_tasks(values), name, has_tls=values.get("tls", False))
    # A mistake is told before anything is written.
    spec = parse_cluster(tomllib.loads(text), name="new", where=str(path), base=path.parent)
    _write(path, text, replaces=values.get("force", False))
    print(f"wrote {path}: {plural(len(spec.tasks), 'task')}, of which {spec.lead} leads")
    try:
        return look_at_new(load_cluster(path), path, environment, insecure=values.get("insecure", False))
    except SecurityError as error:
        print(f"not looked at by the doctor: {error}")
        return ExitStatus.WELL


def _tasks(values: Mapping[str, Any]) -> dict[Role, list[Address]]:
    """Return the addresses by role. Tasks of one host have one port after the other. Raises UsageError."""
    port, given = values.get("port", _PORT), [name for name in _ROLES if name in values]
    if not given:
        raise UsageError("init: name the hosts, as in --workers host[1-4]; tfscale-console init --help shows how")
    taken: set[Address] = set()
    tasks: dict[Role, list[Address]] = {}
    for name in given:
        for host, own in hosts(values[name], flag(name)):
            address = Address(host, port if own is None else own)
            while own is None and address in taken:
                address = Address(host, address.port + 1)
            taken.add(address)
            tasks.setdefault(_ROLES[name], []).append(address)
    return tasks


def _write(path: Path, text: str, *, replaces: bool) -> None:
    """Write the whole file or nothing. Raises UsageError."""
    if path.suffix == ".json":
        raise UsageError(f"--out {path}: the file has comments, which JSON has not: give a name that ends in .toml")
    if path.exists() and not replaces:
        raise UsageError(f"{path} is there: give --force to replace it, or another name with --out")
    try:
        write_whole(path, text)
    except OSError as error:
        raise UsageError(f"--out {path}: {error.strerror}") from None
