"""`tfscale-train`: runs one of the programs in `tfscale.trainer.programs`."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Sequence

from tfscale.core.errors import TfscaleError, UsageError
from tfscale.trainer import programs


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named program with the rest of the arguments, and return the exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if not words or words[0] in ("-h", "--help"):
            print(f"usage: tfscale-train PROGRAM [options]\n\nprograms: {', '.join(names())}")
            return 0 if words else 2
        run(words[0], words[1:])
    except TfscaleError as error:
        print(f"tfscale-train: {error}", file=sys.stderr)
        return error.exit_status
    return 0


def names() -> list[str]:
    """Return the programs, by the names that the command line takes."""
    return sorted(module.name for module in pkgutil.iter_modules(programs.__path__))


def run(name: str, arguments: Sequence[str]) -> None:
    """Run a program. Raises UsageError when there is none of that name, or TensorFlow is not installed."""
    if name not in names():
        raise UsageError(f"there is no program {name!r}: use one of {', '.join(names())}")
    try:
        program = importlib.import_module(f"{programs.__name__}.{name}")
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed here: pip install 'tfscale[demo]'") from None
    program.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
