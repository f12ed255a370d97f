"""Sizes as people and programs read them: table, the one to take, JSON, CSV."""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

from tfscale.core.text import aligned, duration, step_time
from tfscale.trainer.batch.size_search import ENOUGH, HEAD_ROOM, SizeRow, SizeSearch
from tfscale.trainer.compare.comparison import LOSS_MARGIN
from tfscale.trainer.compare.measured_run import MeasuredRun, loss_at, memory_words

_UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class Found:
    """End of a search."""

    chosen: SizeRow | None
    """Size to take; None where there is none."""
    more: SizeRow | None
    """The run with 10 % more examples; None where nothing was chosen."""

    @property
    def has_head_room(self) -> bool:
        return self.chosen is not None and self.more is not None and self.more.failed is None


def summaries(search: SizeSearch) -> list[dict[str, Any]]:
    """Return the numbers of each size, by name: those of its fastest run, times in seconds; None is unknown."""
    equal = equal_examples(search)
    return [_summary(row, row.fastest, search.best, equal) for row in search.rows]


def _summary(row: SizeRow, run: MeasuredRun | None, best: float, equal: float) -> dict[str, Any]:
    steps = [each.step for each in row.runs if each.step]
    return {
        "batch": row.size,
        "runs": len(steps),
        "examples": run and run.examples,
        "examples_per_second": row.rate or None,
        "share": row.rate / best if row.rate else None,
        "spread": stdev(steps) / fmean(steps) if len(steps) > 1 else None,
        "step": run and run.step,
        "quick_step": run and run.quick,
        "memory": max((each.memory for each in row.runs if each.memory), default=None),
        "device_memory": max((each.device_memory for each in row.runs if each.device_memory), default=None),
        "start": run and run.start,
        "wall": run and run.wall,
        "loss": loss_at(run, equal) if run and run.examples else None,
        "out_of_memory": row.is_out_of_memory,
        "reason": row.failed.reason if row.failed else "",
    }


def equal_examples(search: SizeSearch) -> float:
    """Return the number of examples that every measured run with a loss has reached."""
    runs = [run for row in search.rows for run in row.runs if run.losses and run.examples and not run.reason]
    return min((run.losses[-1][0] * (run.examples or 1) for run in runs), default=0)


def table(search: SizeSearch, found: Found | None, flags: argparse.Namespace) -> str:
    """Return the table, one line a size, and below it which one to take."""
    lines = summaries(search)
    cells = [["batch", "examples/s", "of the most", "step", "memory", "start", "wall", "loss"]]
    base = next((line["loss"] for line in lines if line["batch"] == flags.start), None)
    for line in lines:
        more = _is_worse(base, line["loss"])
        cells.append(
            [
                str(line["batch"]),
                _shown(line["examples_per_second"], "{:,.0f}".format),
                _shown(line["share"], "{:.0%}".format),
                _shown(line["step"], step_time),
                memory_words(line["memory"], line["device_memory"]) or _UNKNOWN,
                _shown(line["start"], duration),
                _shown(line["wall"], duration),
                _shown(line["loss"], "{:.4f}".format) + " !" * more,
            ]
        )
    return "\n".join([*aligned(cells, left=()), "", *_remarks(search, found, flags, lines, base)])


def _shown(value: float | None, words: Callable[[float], str]) -> str:
    return _UNKNOWN if value is None else words(value)


def _is_worse(base: float | None, loss: float | None) -> bool:
    return base is not None and loss is not None and loss - base > LOSS_MARGIN * abs(base)


def _remarks(
    search: SizeSearch,
    found: Found | None,
    flags: argparse.Namespace,
    lines: Sequence[Mapping[str, Any]],
    base: float | None,
) -> list[str]:
    """Return the lines below the table: what failed, which size to take, and how sure that is."""
    told = [
        f"batch {line['batch']}: {'out of memory: ' * line['out_of_memory']}{line['reason']}"
        for line in lines
        if line["reason"]
    ]
    told += _choice(search, found)
    chosen = found.chosen if found else None
    if any(_is_worse(base, line["loss"]) for line in lines):
        script = "" if flags.program else ", with {rate} in the command,"
        rate = "was scaled with the size" if flags.rate else f"was the same; --rate R{script} scales it with the size"
        told.append(
            f"! its loss after {equal_examples(search):,.0f} examples is more than {LOSS_MARGIN:.0%} above that of "
            f"batch {flags.start}: it made fewer updates; the learning rate {rate}"
        )
    spread = [line["spread"] for line in lines if line["spread"] is not None]
    if slowed := _slowed(search, found):
        told.append(
            f"batch {', '.join(map(str, slowed))}: a step took longer than one of a larger batch, as it does "
            "beside other work: the choice is not sure"
        )
    if spread:
        differ = fmean(spread)
        told.append(
            f"Runs of one size differ by {differ:.1%} here (standard deviation of the step)"
            + (f", and {1 - ENOUGH:.0%} decide what is taken: the choice is not sure." if differ > 1 - ENOUGH else ".")
        )
    elif chosen is not None and len(lines) > 1:
        told.append("One run a size: how far two runs of one size differ here is not known; --runs 3 tells it.")
    if flags.workers or any(run.devices > 1 for row in search.rows for run in row.runs):
        told.append("A size is that of the command; memory is that of the process or GPU that needs most.")
    return told


def _slowed(search: SizeSearch, found: Found | None) -> list[int]:
    """Return the sizes whose step was clearly longer than one of a larger size, which has more to do."""
    more = [found.more] if found and found.more else []
    steps = {row.size: row.fastest.step for row in [*search.rows, *more] if row.fastest and row.fastest.step}
    return [
        size
        for size in sorted(steps)
        if any(larger > size and ENOUGH * steps[size] > step for larger, step in steps.items())
    ]


def _choice(search: SizeSearch, found: Found | None) -> list[str]:
    if found is None:
        chosen = search.chosen
        if chosen is None:
            return ["no size was measured yet"]
        return [f"so far batch {chosen.size}, not run with {HEAD_ROOM:.0%} more examples yet"]
    row, more = found.chosen, found.more
    if row is None:
        return ["no size could be measured"]
    share = row.rate / search.best
    size = f"the smallest with {ENOUGH:.0%} of the most examples/s ({share:.0%})"
    if share < ENOUGH:
        size = f"{share:.0%} of the most examples/s; larger ones have no head-room of {HEAD_ROOM:.0%}"
    told = [f"take batch {row.size}: {size}"]
    if more is not None and more.failed is None:
        told.append(f"head-room: batch {more.size} ran as well, with {more.size / row.size - 1:.0%} more examples")
    elif more is not None and more.failed is not None:
        told.append(f"its head-room is not shown: batch {more.size}: {more.failed.reason}")
    return told


def as_json(search: SizeSearch, found: Found | None, facts: Mapping[str, Any]) -> str:
    """Return all numbers of all runs."""
    sizes = [
        line | {"all_runs": [asdict(run) for run in row.runs]}
        for row, line in zip(search.rows, summaries(search), strict=True)
    ]
    chosen, more = (found.chosen, found.more) if found else (None, None)
    document = {
        **facts,
        "batch": chosen.size if chosen else None,
        "head_room": found.has_head_room if found else None,
        "head_room_run": asdict(more.runs[0]) if more else None,
        "equal_examples": equal_examples(search),
        "sizes": sizes,
    }
    return json.dumps(document, allow_nan=False) + "\n"


def as_csv(search: SizeSearch) -> str:
    """Return a line for each size."""
    lines, text = summaries(search), io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]) if lines else ["batch"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()
