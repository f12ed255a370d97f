"""Python's collector of garbage in a console that hears many agents."""

from __future__ import annotations

import gc


def collect_seldom(tasks: int) -> None:
    """Have the collector search seldom: what is loaded by now stays, and frames are no garbage.

    The threshold is above what the streams of so many tasks have under way.
    """
    gc.freeze()
    gc.set_threshold(10_000 + 30 * tasks, 5, 5)
