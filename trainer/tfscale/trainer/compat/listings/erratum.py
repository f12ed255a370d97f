"""Lines about a listing that does not run as its book prints it: beside a repair, or in the place of a silent wait.

Standard library alone: it is loaded where a script ends before it has imported TensorFlow.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from tfscale.core.log_clues import EXPLAINED


class Erratum(ValueError):
    """Reason for which a listing cannot run as it is printed, and what to write, in one line."""


listeners: list[Callable[[str], None]] = []
"""Functions that are called with each note; the probe's reports it to the console."""
_noted: set[str] = set()


def note(sentence: str) -> None:
    """Say once, on stderr and in the console, what was done in the place of what is printed; the script goes on."""
    if sentence not in _noted:
        _noted.add(sentence)
        print(f"tfscale: {sentence}", file=sys.stderr, flush=True)
        for listener in listeners:
            listener(sentence)


def explain(sentence: str) -> None:
    """Say why the script cannot go on; agent and console take this line as the reason of its end."""
    print(f"{EXPLAINED}{sentence}", file=sys.stderr, flush=True)
