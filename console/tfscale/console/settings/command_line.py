"""Command line of the console: watching, or a command with an argument and flags of its own."""

from __future__ import annotations

from argparse import SUPPRESS, Action
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tfscale.core.errors import UsageError
from tfscale.core.settings.precedence import CommandLine, Option, add_flags, flag, split_command
from tfscale.core.settings.suggestion import suggestion
from tfscale.core.version import version_line

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
    may_lack_program: bool = False
    """True if the program may be left out."""
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
    """Words without flags and before `--`."""
    program: tuple[str, ...]
    """The program with its arguments, after `--`."""
    flags: Mapping[str, Any]
    """Text of each flag that was given, by the name of its option; of a switch, True or False."""
    environment: Mapping[str, str]


def parse(
    watch: Command, commands: Sequence[Command], arguments: Sequence[str], environment: Mapping[str, str]
) -> Invocation:
    """Return the named command of the arguments, `watch` without a name. Raises UsageError."""
    own, program = split_command(arguments)
    namespace, unknown = parser(watch, commands).parse_known_args(own)
    given = vars(namespace)
    name = given.pop("command", None) or watch.name
    command = next(command for command in (watch, *commands) if command.name == name)
    words = given.pop("arguments", None) or []
    # A flag before the name of the command was read as one of watching.
    unknown += [flag(option) for option in given if option not in command.options]
    if program and not command.takes_program:
        unknown.append(f"-- {program[0]}")
    if unknown:
        raise _unknown_word(command, unknown[0])
    if command.takes_program and not program and not command.may_lack_program:
        raise UsageError(f"{name}: write the program after --, as in {command.words} -- python train.py")
    arguments = (words,) if isinstance(words, str) else tuple(words)
    return Invocation(command, arguments, tuple(program), given, environment)


def _unknown_word(command: Command, word: str) -> UsageError:
    """Return the error about a word that a command does not take."""
    name = word.partition("=")[0]
    flags = [flag(option) for option in command.options]
    return UsageError(
        f"{command.name or 'watching'} takes no {name if name in flags else word}"
        + suggestion(name, [*flags, "--help", "--version"], f"{command.words} --help shows how")
    )


class _ConsoleLine(CommandLine):
    """Parser of the words before and of the command's name."""

    def _check_value(self, action: Action, value: Any) -> None:
        """Refuse a word that is no command with a line of its own: argparse's lists every command."""
        if action.dest == "command" and value not in (action.choices or ()):
            raise UsageError(f"there is no command {value!r}{_instead(str(value), action.choices or ())}")


def _instead(word: str, commands: Iterable[str]) -> str:
    """Return the end of the error about a word that is no command: what may have been meant."""
    for ending, words in ((".tfrec", "replay"), (".jsonl", "report"), (".toml", "--cluster"), (".json", "--cluster")):
        if word.endswith(ending):
            return f"; did you mean {_PROGRAM} {words} {word}?"
    return suggestion(word, commands, f"{_PROGRAM} --help lists them")


def parser(watch: Command, commands: Sequence[Command]) -> CommandLine:
    """Return the parser of the command line, with all commands and their flags."""
    made = _ConsoleLine(prog=_PROGRAM, description=watch.summary, epilog=_EPILOG, allow_abbrev=False)
    # A flag of a command is known before the command, too: else the text of the flag was taken for the command's name.
    hidden = {name: replace(row, help=SUPPRESS) for command in commands for name, row in command.options.items()}
    add_flags(made, {**hidden, **watch.options})
    made.add_argument("--version", action="version", version=version_line())
    rows = made.add_subparsers(
        title="commands, in place of watching", dest="command", metavar="COMMAND", parser_class=CommandLine
    )
    rows.required = False
    for command in commands:
        usage = f"{command.words} [options]{_program_words(command)}" if command.takes_program else None
        description = f"{command.summary[0].upper()}{command.summary[1:]}."
        row = rows.add_parser(
            command.name, usage=usage, help=command.summary, description=description, allow_abbrev=False
        )
        _add_words(row, command)
    return made


def _program_words(command: Command) -> str:
    return f" [{command.argument.split()[0]}] [-- PROGRAM ...]" if command.may_lack_program else " -- PROGRAM ..."


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
