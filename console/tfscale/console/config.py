"""What the console was told: flags beat `TFSCALE_*` variables, which beat the configuration file."""

from __future__ import annotations

import argparse
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn

import platformdirs
from tfscale.console.export.rows import PARTS
from tfscale.console.options import OPTIONS
from tfscale.console.sources.faults import Fault
from tfscale.console.version import installed_version
from tfscale.core.cluster import Address
from tfscale.core.errors import UsageError

TABLE = "console"
"""Of the configuration file: the other programs have theirs beside it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole configuration of one console."""

    cluster: Path | None = None
    """The cluster file; None: another way to find the cluster is given, else `TF_CONFIG` names it."""
    agent: Address | None = None
    """Any one agent, which knows the others."""
    simulate: int | None = None
    """So many workers that are not there."""
    fault: tuple[Fault, ...] = ()
    """What goes wrong with simulated workers."""
    rate: float = 10.0
    """Steps a second of simulated workers."""
    insecure: bool = False
    """Reach agents beyond this host without TLS."""
    ca: Path | None = None
    """With `certificate` and `key`: TLS for agents that are found by `agent`."""
    certificate: Path | None = None
    key: Path | None = None
    record: Path | None = None
    """Record to this file."""
    read_only: bool = False
    """Nothing that reaches into a task."""
    yes: bool = False
    """Restart, stop or start from the command line."""
    serve: Address | None = None
    """The screen in a browser that comes here."""
    headless: bool = False
    """No screen."""
    out: Path | None = None
    """Where the headless console writes; None: stdout."""
    format: str = "jsonl"
    only: str | None = None
    """One of PARTS; None: all."""
    rotate: int | None = None
    """Bytes after which the file is begun anew; None: never."""
    keep: int = 5
    """Files kept besides the one that is written."""
    once: bool = False
    """One snapshot."""
    until: tuple[str, ...] = ()
    """Conditions that end it."""
    seconds: float | None = None
    """Ends it, counted from the first step of all training tasks."""
    on_event: str | None = None
    """A command to run for each event that matters."""
    webhook: str | None = None
    """A web address to post each event that matters to."""
    theme: str | None = None
    """Of the screen's colours; None: the one that was chosen last."""
    ascii: bool = False
    """Draw without Unicode."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A setting's words, and where they are from."""

    value: Any
    where: str
    """`--seconds`, `TFSCALE_SECONDS`, or a file and a key in it."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings, what was asked of them, and where each is from."""

    settings: Settings
    command: tuple[str, ...] = ()
    """`("stack", "worker:1")` and the like; empty: watch."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """By setting; absent: built in."""
    file: Path | None = None
    """The configuration file that was read."""

    def describe(self) -> str:
        """Every setting as a line of the configuration file, with where it is from."""
        lines = [f"[{TABLE}]" + ("" if self.file else f"  # {config_path(os.environ)} is not there")]
        for each in fields(Settings):
            value = getattr(self.settings, each.name)
            line = f"# {each.name} is not set" if value in (None, ()) else f"{each.name} = {_toml(value)}"
            lines.append(f"{line:<40}  # {self.origins.get(each.name, 'built in')}")
        return "\n".join(lines)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def config_path(environment: Mapping[str, str]) -> Path:
    """`$XDG_CONFIG_HOME/tfscale/config.toml`."""
    home = environment.get("XDG_CONFIG_HOME")
    folder = Path(home) / "tfscale" if home else Path(platformdirs.user_config_dir("tfscale"))
    return folder / "config.toml"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; --help shows how")


def configure(arguments: Sequence[str], environment: Mapping[str, str], commands: Mapping[str, str]) -> Configuration:
    """What flags, variables and the configuration file amount to. `commands` are the words to begin with and their
    arguments: `{"stack": "TASK"}`. Raises UsageError."""
    flags = _parser(commands).parse_args(arguments)
    path = config_path(environment)
    document = _read(path)
    origins = _origins(flags, environment, document, path)
    settings = Settings(**{name: _value(name, origin) for name, origin in origins.items()})
    _check(settings, origins)
    command = _command(flags.command, commands)
    where = {name: origin.where for name, origin in origins.items()}
    return Configuration(settings, command, where, path if document else None)


def _parser(commands: Mapping[str, str]) -> _Parser:
    parser = _Parser(
        prog="tfscale-console",
        description="Watch a TensorFlow cluster live, see who makes it slow and why, and restart tasks.",
        epilog="Each flag can be a variable too (TFSCALE_CLUSTER, TFSCALE_INSECURE=1), or a line of [console] in "
        "$XDG_CONFIG_HOME/tfscale/config.toml; `tfscale-console config` shows what holds.",
        allow_abbrev=False,
    )
    for name, option in OPTIONS.items():
        flag = "--" + name.replace("_", "-")
        if option.is_switch:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, help=option.help, dest=name)
        else:
            parser.add_argument(
                flag,
                action="append" if option.is_list else "store",
                nargs=None if option.otherwise is None else "?",
                const=option.otherwise,
                metavar=option.metavar,
                help=option.help,
                dest=name,
            )
    parser.add_argument("command", nargs="*", metavar="COMMAND", help=f"instead of watching: {_shown(commands)}")
    parser.add_argument("--version", action="version", version=f"tfscale {installed_version() or '(not installed)'}")
    return parser


def _shown(commands: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {argument}".strip() for name, argument in commands.items())


def _command(words: list[str], commands: Mapping[str, str]) -> tuple[str, ...]:
    if not words:
        return ()
    if words[0] not in commands:
        raise UsageError(f"{words[0]!r} is no command: use {_shown(commands)}")
    if len(words) != 1 + bool(commands[words[0]]):
        raise UsageError(f"{' '.join(words)!r}: write {words[0]} {commands[words[0]]}".rstrip())
    return tuple(words)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not TOML: {error}") from None
    table = document.get(TABLE, {})
    if not isinstance(table, dict):
        raise UsageError(f"{path}: {TABLE} must be a table")
    for name in table:
        if name not in OPTIONS:
            raise UsageError(f"{path}: [{TABLE}] has no key {name!r}: use one of {', '.join(OPTIONS)}")
    return table


def _origins(
    flags: argparse.Namespace, environment: Mapping[str, str], document: Mapping[str, Any], path: Path
) -> dict[str, Origin]:
    origins = {}
    for name in OPTIONS:
        variable = f"TFSCALE_{name.upper()}"
        if (value := getattr(flags, name)) is not None:
            origins[name] = Origin(value, "--" + name.replace("_", "-"))
        elif environment.get(variable):
            origins[name] = Origin(environment[variable], variable)
        elif name in document:
            origins[name] = Origin(document[name], f"{path}: {name}")
    return origins


def _value(name: str, origin: Origin) -> Any:
    option = OPTIONS[name]
    if option.is_list:
        words = origin.value if isinstance(origin.value, list) else origin.value.split()
        return tuple(option.parse(str(each), origin.where) for each in words)
    if isinstance(origin.value, list):
        origin = Origin(",".join(map(str, origin.value)), origin.where)
    return option.parse(str(origin.value), origin.where)


def _check(settings: Settings, origins: Mapping[str, Origin]) -> None:
    """What can be right alone and wrong together."""
    flags = {name for name, origin in origins.items() if origin.where.startswith("--")}
    ways = [name for name in ("cluster", "agent", "simulate") if name in flags]
    if len(ways) > 1:
        raise UsageError(f"--{ways[0]} and --{ways[1]} are two clusters: give one")
    if settings.fault and settings.simulate is None:
        raise UsageError(f"{origins['fault'].where} needs --simulate")
    tls = (settings.ca, settings.certificate, settings.key)
    if any(tls) and not all(tls):
        raise UsageError("--ca, --certificate and --key go together: give all three")
    if settings.format != "jsonl" and settings.only is None:
        raise UsageError(f"--format {settings.format} holds one table: add --only {' or --only '.join(PARTS)}")
    if settings.format == "parquet" and settings.out is None:
        raise UsageError("--format parquet needs --out")
    if settings.serve is not None and not settings.serve.is_loopback and not settings.insecure:
        where = origins["serve"].where
        raise UsageError(f"{where} {settings.serve}: whoever reaches it gives orders, unencrypted: add --insecure")
    if settings.serve is not None and settings.record is not None:
        raise UsageError(f"{origins['serve'].where}: each page is a console of its own: record with one beside it")
    if settings.rotate is not None and settings.out is None:
        raise UsageError(f"{origins['rotate'].where} needs --out")
