"""Order of a program's settings: flags, then `TFSCALE_*` variables, then the configuration file, then the default.

Each program has a table of `Option`s by name. `log_size` is the flag `--log-size`, the variable `TFSCALE_LOG_SIZE` and
the key `log_size` or `log-size` in the program's table of the file; its text means the same in all three.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tfscale.core.errors import UsageError
from tfscale.core.settings.user_folders import config_folder
from tfscale.core.settings.value_parsers import Parse, switch


@dataclass(frozen=True, slots=True)
class Option:
    """Setting of a program: its parser, and its line of `--help`."""

    parse: Parse
    metavar: str
    help: str
    is_list: bool = False
    """True where the flag may be given several times; a variable separates the items by spaces."""
    otherwise: str | None = None
    """Text that the flag alone stands for; None: the flag needs a text."""

    @property
    def is_switch(self) -> bool:
        return self.parse is switch


@dataclass(frozen=True, slots=True)
class ChosenSettings:
    """Settings that were given somewhere; all others keep their default."""

    values: Mapping[str, Any]
    origins: Mapping[str, str]
    """Place of each value: `--seconds`, `TFSCALE_SECONDS`, or the file and the key in it."""
    file: Path | None
    """Configuration file; None where it is absent or has no table for this program."""


class CommandLine(argparse.ArgumentParser):
    """Parser of flags. A mistake raises UsageError."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; {self.prog} --help shows how")


def split_command(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the program's own arguments, and the command after the first `--`."""
    words = list(arguments)
    cut = words.index("--") if "--" in words else len(words)
    return words[:cut], words[cut + 1 :]


def add_flags(parser: argparse._ActionsContainer, options: Mapping[str, Option]) -> None:
    """Add a flag for each option as unread text: `choose` parses the text of all places alike.

    A flag that is not given is absent from the parser's result.
    """
    for name, option in options.items():
        if option.is_switch:
            parser.add_argument(
                flag(name),
                action=argparse.BooleanOptionalAction,
                default=argparse.SUPPRESS,
                help=option.help,
                dest=name,
            )
        else:
            parser.add_argument(
                flag(name),
                action="append" if option.is_list else "store",
                nargs=None if option.otherwise is None else "?",
                const=option.otherwise,
                default=argparse.SUPPRESS,
                metavar=option.metavar,
                help=option.help,
                dest=name,
            )


def choose(
    options: Mapping[str, Option], table: str, flags: Mapping[str, Any], environment: Mapping[str, str]
) -> ChosenSettings:
    """Return the value of each option from the first place that gives one.

    `flags` has the text of each flag that was given; `table` is the program's table of the configuration file. A value
    that another place outranks is checked, too: a mistake must not wait for the day when the flag is left out. Raises
    UsageError that begins with the place.
    """
    path = config_path(environment)
    document = _read(path, table, options)
    values, origins = {}, {}
    for name, option in options.items():
        given = list(_given(name, flags, environment, document))
        parsed = [_value(option, value, origin) for value, origin in given]
        if given:
            values[name], origins[name] = parsed[0], given[0][1]
    return ChosenSettings(values, origins, path if document else None)


def _given(
    name: str, flags: Mapping[str, Any], environment: Mapping[str, str], document: Mapping[str, tuple[Any, str]]
) -> Iterator[tuple[Any, str]]:
    """Yield each given value of a setting with its place, the strongest first."""
    if name in flags:
        yield flags[name], flag(name)
    if value := environment.get(variable := f"TFSCALE_{name.upper()}"):
        yield value, variable
    if name in document:
        yield document[name]


def config_path(environment: Mapping[str, str]) -> Path:
    """Return `$XDG_CONFIG_HOME/tfscale/config.toml`."""
    return config_folder(environment) / "config.toml"


def is_flag(origin: str | None) -> bool:
    return origin is not None and origin.startswith("--")


def outranks(origins: Mapping[str, str], name: str, *others: str) -> bool:
    """Decide whether a setting comes from a stronger place than each of `others` that was given."""
    return all(_rank(origins.get(name)) < _rank(origins.get(other)) for other in others if other in origins)


def _rank(origin: str | None) -> int:
    if origin is None:
        return 3
    return 0 if is_flag(origin) else 1 if origin.startswith("TFSCALE_") else 2


def flag(name: str) -> str:
    """Return the flag of a setting: `--log-size` of `log_size`."""
    return "--" + name.replace("_", "-")


def _read(path: Path, name: str, options: Mapping[str, Option]) -> dict[str, tuple[Any, str]]:
    """Return the values in one table of the file with their places, by option."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not TOML: {error}") from None
    table = document.get(name, {})
    if not isinstance(table, dict):
        raise UsageError(f"{path}: {name} must be a table")
    for key in table:
        if key.replace("-", "_") not in options:
            raise UsageError(f"{path}: [{name}] has no key {key!r}: use one of {', '.join(options)}")
    return {key.replace("-", "_"): (value, f"{path}: {key}") for key, value in table.items()}


def _value(option: Option, given: Any, origin: str) -> Any:
    if option.is_list:
        items = given if isinstance(given, list) else given.split()
        return tuple(option.parse(str(item), origin) for item in items)
    return option.parse(",".join(map(str, given)) if isinstance(given, list) else str(given), origin)
