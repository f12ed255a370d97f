"""Command line of the console: watching, or a command with an argument and flags of its own."""

from __future__ import annotations

from argparse import SUPPRESS
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tfscale.core.errors import UsageError
from tfscale.core.settings.precedence import CommandLine, Option, add_flags, flag, split_command
from tfscale.core.version import installed_version

_PROGRAM = "tfscale-console"
_EPILOG = (
    "Most flags can be a variable too (TFSCALE_CLUSTER, TFSCALE_INSECURE=1), or a line of [console] in "
    "$XDG_CONFIG_HOME/tfscale/config.toml; `tfscale-console config` shows what holds. "
    "`tfscale-console COMMAND --help` has the flags of a command."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Command of the console, a sub-parser of the command line; watching has no name."""

    name: str
    """Word on the command line; empty: watching a cluster, which needs none."""
    summary: str
    """Clause of `--help`."""
    run: Callable[[Invocation], int]
    """Function that carries the command out and returns the exit status. Raises TfscaleError."""
    options: Mapping[str, Option]
    """Options that are flags of the command. Its other settings come from variables and the configuration file."""
    argument: str = ""
    """Argument as `--help` calls it, empty for none; one that ends in `...` may be absent or given several times."""
    in_place: str = ""
    """Option that may stand in place of the argument; empty: none."""
    takes_program: bool = False
    """True if a program and its arguments follow after `--`."""
    gives_orders: bool = False
    """True if the command reaches into tasks: a read-only console refuses it."""

    @property
    def words(self) -> str:
        """The words that a user types for the command: `tfscale-console stack`."""
        return f"{_PROGRAM} {self.name}".rstrip()


@dataclass(frozen=True, slots=True)
class Invocation:
    """A command with its argument and its flags from the command line."""

    command: Command
    arguments: tuple[str, ...]
    """Words without flags; for `run` the program with its arguments."""
    flags: Mapping[str, Any]
    """Text of each flag that was given, by the name of its option; of a switch, True or False."""
    environment: Mapping[str, str]


def parse(
    watch: Command, commands: Sequence[Command], arguments: Sequence[str], environment: Mapping[str, str]
) -> Invocation:
    """Return the named command of the arguments, `watch` without a name. Raises UsageError."""
    own, program = split_command(arguments)
    namespace, unknown = _parser(watch, commands).parse_known_args(own)
    given = vars(namespace)
    name = given.pop("command", None) or watch.name
    command = next(command for command in (watch, *commands) if command.name == name)
    words = given.pop("arguments", None) or []
    # A flag before the name of the command was read as one of watching.
    unknown += [flag(option) for option in given if option not in command.options]
    if program and not command.takes_program:
        unknown.append(f"-- {program[0]}")
    if unknown:
        raise UsageError(f"{name or 'watching'} takes no {unknown[0]}; {command.words} --help shows how")
    if command.takes_program and not program:
        raise UsageError(f"{name}: write the program after --, as in {command.words} -- python train.py")
    return Invocation(command, (*([words] if isinstance(words, str) else words), *program), given, environment)


def _parser(watch: Command, commands: Sequence[Command]) -> CommandLine:
    parser = CommandLine(prog=_PROGRAM, description=watch.summary, epilog=_EPILOG, allow_abbrev=False)
    # A flag of a command is known before the command, too: else the text of the flag was taken for the command's name.
    hidden = {name: replace(row, help=SUPPRESS) for command in commands for name, row in command.options.items()}
    add_flags(parser, {**hidden, **watch.options})
    parser.add_argument("--version", action="version", version=f"tfscale {installed_version() or '(not installed)'}")
    rows = parser.add_subparsers(title="commands, in place of watching", dest="command", metavar="COMMAND")
    rows.required = False
    for command in commands:
        usage = f"{command.words} [options] -- PROGRAM ..." if command.takes_program else None
        description = f"{command.summary[0].upper()}{command.summary[1:]}."
        row = rows.add_parser(
            command.name, usage=usage, help=command.summary, description=description, allow_abbrev=False
        )
        _add_words(row, command)
    return parser


def _add_words(row: CommandLine, command: Command) -> None:
    options = dict(command.options)
    where = row.add_mutually_exclusive_group(required=True) if command.in_place else row
    name, *others = command.argument.split() or ("",)
    if command.in_place or others == ["..."]:
        where.add_argument("arguments", nargs="?" if command.in_place else "*", metavar=name)
    elif name:
        for each in (name, *others):
            row.add_argument("arguments", action="append", metavar=each)
    if command.in_place:
        add_flags(where, {command.in_place: options.pop(command.in_place)})
    add_flags(row, options)
