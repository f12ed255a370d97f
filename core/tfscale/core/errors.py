"""The base of every error that tfscale shows to people.

    TfscaleError        one clear line: what is wrong, where, what to do
    `- UsageError       the caller's words or files are wrong (exit status 2)

Each program derives its own from these, in the module that raises them.
"""


class TfscaleError(Exception):
    """An error that a person can mend. `str(error)` is the one line to print on stderr."""

    exit_status = 1


class UsageError(TfscaleError):
    """Wrong arguments, a missing or malformed file."""

    exit_status = 2
