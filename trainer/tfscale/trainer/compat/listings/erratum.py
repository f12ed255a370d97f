"""Lines about a listing that does not run as printed in its book: beside a repair, or in place of a silent wait.

Standard library alone: it is loaded where a script ends before it has imported TensorFlow.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from tfscale.core.log_clues import EXPLAINED


class Erratum(ValueError):
    """Error in a listing: why it cannot run as printed, and the remedy, in one line."""


listeners: list[Callable[[str], None]] = []
"""Functions that are called with each note; the probe's function reports the note to the console."""
_noted: set[str] = set()


def note(sentence: str) -> None:
    """Report once, on stderr and in the console, a replacement for a printed line; the script goes on."""
    if sentence not in _noted:
        _noted.add(sentence)
        print(f"tfscale: {sentence}", file=sys.stderr, flush=True)
        for listener in listeners:
            listener(sentence)


def explain(sentence: str) -> None:
    """Say why the script cannot go on; agent and console show this line as the reason of the script's end."""
    print(f"{EXPLAINED}{sentence}", file=sys.stderr, flush=True)
