"""Standard streams that were closed before the program was started, as by `>&-` or a bare service manager."""

from __future__ import annotations

import os
import sys


def fill_standard_streams() -> None:
    """Put the null device in the place of each standard stream that is closed.

    Python has None there, and the next file or socket that is opened would get its number.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number and not _is_open(number):
                os.dup2(null, number)
            setattr(sys, name, os.fdopen(null, mode))


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
