"""The console's command line, as its words are typed, within this process."""

from __future__ import annotations

from tfscale.console.command_table import COMMANDS, WATCH
from tfscale.console.settings.command_line import Invocation, parse


def invocation(*words: object, **variables: str) -> Invocation:
    """Return the words as a command, without a configuration file. Raises UsageError."""
    environment = {"XDG_CONFIG_HOME": "/nonexistent"} | variables
    return parse(WATCH, COMMANDS, [str(word) for word in words], environment)


def run_command(*words: object) -> int:
    """Carry out the command that the words name, and return its exit status. Raises TfscaleError."""
    typed = invocation(*words)
    return typed.command.run(typed)
