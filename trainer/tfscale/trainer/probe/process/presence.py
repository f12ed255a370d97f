"""Presence of the probe in this process, as its agent sees it: this file is mapped into memory meanwhile.

The list of a process's maps is read without its help, so it also tells of a probe that has nothing to report so far,
and of one whose threads are gone.
"""

from __future__ import annotations

import mmap
from contextlib import suppress

_mapped: list[mmap.mmap] = []


def show() -> None:
    """Show the agent that the probe is in this process. Processes that are forked from it show the same."""
    with suppress(OSError, ValueError), open(__file__, "rb") as file:  # noqa: PTH123 - as tfscale_probe.py does
        _mapped.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def hide() -> None:
    """Show the agent that the probe has ended."""
    while _mapped:
        _mapped.pop().close()
