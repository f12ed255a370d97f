"""Comparison as people and programs read it: table, best setting, JSON, CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from tfscale.core.cluster.gpu_price import GpuPrice, gpu_hours
from tfscale.core.comparison.judgement import FAR, Verdict
from tfscale.core.records.step_batch import PHASES
from tfscale.core.text import aligned, duration, elapsed, step_time
from tfscale.trainer.compare.comparison import LOSS_MARGIN, Comparison, Row
from tfscale.trainer.compare.measured_run import MeasuredRun, memory_words, seconds_to

COST = "device_seconds_per_1000_examples"
HOURS = "device_hours_to_loss"
_UNKNOWN = "-"
_NONE_FASTER = {
    frozenset({Verdict.SLOWER}): "the base",
    frozenset({Verdict.WITHIN}): "none, all are as fast as the base",
}
"""Words for the fastest setting where none is faster than the base, by the verdicts of the others."""


def summary(row: Row, target: float | None) -> dict[str, Any]:
    """Return the numbers of a setting, by name: means over its runs, times in seconds; None is unknown.

    Args:
        row: the setting.
        target: loss to which the time is told.
    """
    runs, judged = row.measured, row.judgement
    reached = [seconds_to(run, target) for run in runs] if target is not None else []
    numbers: dict[str, Any] = {
        "setting": row.trial.name,
        "verdict": judged.verdict if judged else None,
        "change": judged.change if judged else None,
        "low": judged.low if judged else None,
        "high": judged.high if judged and judged.high < math.inf else None,
        "visible": judged.visible if judged and judged.visible < math.inf else None,
        "quick_verdict": row.quick.verdict if row.quick else None,
        "quick_change": row.quick.change if row.quick else None,
        "rounds": len(runs),
        "examples_per_second": _mean([run.examples_per_second for run in runs]),
        "step": _mean([run.step for run in runs]),
        "quick_step": _mean([run.quick for run in runs]),
    }
    numbers |= {phase: _mean([run.phases.get(phase) for run in runs]) for phase in PHASES}
    return numbers | {
        "memory": max((run.memory for run in runs if run.memory), default=None),
        "device_memory": max((run.device_memory for run in runs if run.device_memory), default=None),
        "start": _mean([run.start for run in runs]),
        "wall": _mean([run.wall for run in runs]),
        COST: _cost(runs),
        "seconds_to_loss": _mean(reached),
        HOURS: _mean([each and gpu_hours(run.devices, each) for run, each in zip(runs, reached, strict=False)]),
        "loss": row.loss,
        "other_training": row.is_other_training,
        "reason": row.reason,
    }


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the mean, None where one value is unknown."""
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def _cost(runs: Sequence[MeasuredRun]) -> float | None:
    """Return the seconds of devices for a thousand examples."""
    rate = _mean([run.examples_per_second for run in runs])
    return 1000 * fmean(run.devices for run in runs) / rate if rate else None


def table(comparison: Comparison, target: float | None) -> str:
    """Return the table, one line a setting, and below it what follows."""
    rows = comparison.rows()
    found = [summary(row, target) for row in rows]
    shown = [phase for phase in PHASES if any((each[phase] or 0.0) > 0 for each in found)]
    head = ["setting", "time against the base", "runs", "examples/s", "step", *shown, "memory", "start", "wall"]
    cells = [head + (["to the loss"] if target is not None else []) + ["loss"]]
    for row, each in zip(rows, found, strict=True):
        line = [
            each["setting"],
            "base" if row is rows[0] and not row.reason else change_words(row),
            str(each["rounds"]),
            _number(each["examples_per_second"], ",.0f"),
            *(_time(each[name]) for name in ("step", *shown)),
            memory_words(each["memory"], each["device_memory"]) or _UNKNOWN,
            *(_UNKNOWN if each[name] is None else duration(each[name]) for name in ("start", "wall")),
        ]
        if target is not None:
            line.append(_UNKNOWN if each["seconds_to_loss"] is None else duration(each["seconds_to_loss"]))
        cells.append([*line, _number(each["loss"], ".4f") + " !" * each["other_training"]])
    return "\n".join([*aligned(cells, left=(0, 1)), "", *remarks(comparison, rows, found)])


def change_words(row: Row) -> str:
    """Return the verdict of a setting with its interval, or why there is none."""
    if row.reason:
        return "no run" if not row.measured else "a run failed"
    if row.judgement is None:
        return "not judged yet"
    return f"{row.judgement.verdict} {row.judgement.interval}"


def remarks(comparison: Comparison, rows: Sequence[Row], found: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines below the table: the fastest and the cheapest, what is marked, what is undecided or failed."""
    lines = [*best_lines(rows, found)]
    if any(row.is_other_training for row in rows):
        lines.append(
            f"! its loss after {comparison.equal_examples():,.0f} examples differs by more than {LOSS_MARGIN:.0%} from "
            "that of the base: it trains something else, and does not win"
        )
    for row in rows:
        if row.reason:
            lines.append(f"{row.trial.name}: {row.reason}")
        elif row.judgement and row.judgement.verdict is Verdict.UNDECIDED:
            lines.append(f"{row.trial.name}: {_undecided(row, comparison, rows[0])}")
    if rows[0].reason:
        return [*lines, "nothing is compared: the base did not run"]
    if not any(row.judgement for row in rows):
        return [*lines, "nothing is judged: no setting has run beside the base often enough"]
    sure, margin = f"{1 - comparison.rounds.error:.0%}", f"{comparison.rounds.margin:.0%}"
    lines.append(
        "The time is that of an example, mean of a run; minus is less time. Intervals hold the true change in "
        f"{sure} of comparisons. Within: less than {margin} either way."
    )
    if (noise := comparison.noise()) is not None:
        visible = comparison.rounds.visible(noise)
        least = f"a slowdown of {visible:.1%}" if visible < FAR else "no slowdown"
        lines.append(
            f"Runs of one setting differ by {noise:.1%} here (standard deviation): in {comparison.rounds.most} rounds "
            f"{least} is found by 9 of 10 comparisons."
        )
    return lines


def _undecided(row: Row, comparison: Comparison, base: Row) -> str:
    """Return what an undecided setting could have shown, and what would decide it."""
    judged, runs = row.judgement, len(row.measured)
    assert judged is not None
    if runs < 2:
        return "undecided after 1 run, which says nothing about the next"
    shown = f", and would have shown a slowdown of {judged.visible:.0%} in 9 of 10 comparisons, no smaller one"
    told = f"undecided: its {runs} runs differ too much{shown if judged.visible < FAR else ' to show anything'}"
    needed = comparison.rounds.needed(comparison.noise(row.trial) or 0.0, judged.change)
    if comparison.is_cut:
        told += "; the same command goes on"
    elif needed is None:
        told += "; longer runs (--steps) or a quieter machine would decide"
    else:
        rounds = max(needed, 2 * runs)
        seconds = rounds * sum(fmean(run.wall for run in each.measured) for each in (base, row))
        told += (
            f"; --rounds {rounds} (about {elapsed(seconds)}) or a quieter machine would decide on {judged.change:+.1%}"
        )
    # Outside of the interval it is no sharper look at the same: some steps do less than others.
    if row.quick and row.quick.verdict is not Verdict.UNDECIDED and judged.low < row.quick.change < judged.high:
        told += f"; by its quick steps, beside which nothing else ran, {row.quick.verdict} {row.quick.interval}"
    return told


def best_lines(rows: Sequence[Row], found: Sequence[dict[str, Any]]) -> list[str]:
    """Return the line of the fastest setting, and that of the cheapest if it is another one."""
    able = [(row, each) for row, each in zip(rows, found, strict=True) if row.may_win]
    if not rows[0].may_win or not any(row.judgement for row in rows):
        return []
    faster = [pair for pair in able if pair[0].judgement and pair[0].judgement.verdict is Verdict.FASTER]
    best, numbers = min(faster or able[:1], key=lambda pair: pair[1]["change"] or 0.0)
    if faster:
        lines = [f"fastest: {best.trial.name}, {1 / (1 + numbers['change']):.2f}x the base ({rows[0].trial.name})"]
    else:
        others = " of those that train the same" if any(row.is_other_training for row in rows) else ""
        verdicts = frozenset(row.judgement.verdict for row, _ in able if row.judgement)
        told = _NONE_FASTER.get(verdicts, "none is surely faster than the base")
        lines = [f"fastest{others}: {told} ({rows[0].trial.name})"]
    costs = {row.trial.name: each[COST] for row, each in able if each[COST] is not None}
    devices = {fmean(run.devices for run in row.measured) for row, _ in able}
    if len(devices) > 1 and numbers[COST] and (cheapest := min(costs, key=lambda name: costs[name])) != best.trial.name:
        share = costs[cheapest] / numbers[COST]
        lines.append(
            f"cheapest: {cheapest}, {share:.0%} of the device time that {best.trial.name} needs for an example"
        )
    return lines


def loss_lines(comparison: Comparison, target: float, price: GpuPrice | None) -> list[str]:
    """Return which setting is the first at a loss, and which is the cheapest; both by means of runs.

    A setting some of whose runs have not come so far takes no part.
    """
    reached = [found for row in comparison.rows() if row.measured and (found := summary(row, target))[HOURS]]
    if not reached:
        return [f"to the loss {target:g}: no setting came so far in all its runs"]
    first = min(reached, key=lambda each: each["seconds_to_loss"])
    cheapest = min(reached, key=lambda each: each[HOURS])
    lines = [f"to the loss {target:g}: first {first['setting']}, {_cost_words(first, price)}; means of runs"]
    if cheapest is not first:
        lines.append(f"cheapest to this loss: {cheapest['setting']}, {_cost_words(cheapest, price)}")
    return lines


def _cost_words(found: dict[str, Any], price: GpuPrice | None) -> str:
    money = f", {price.money(found[HOURS])}" if price else ""
    return f"{duration(found['seconds_to_loss'])} with start and compilation, {found[HOURS]:.2g} device-h{money}"


def as_json(comparison: Comparison, target: float | None, facts: dict[str, Any]) -> str:
    """Return all of it: what was compared, each setting with its numbers, and each run."""
    rows = comparison.rows()
    settings = [
        summary(row, target)
        | {"values": row.trial.setting, "command": list(row.trial.command), "tasks": sum(row.trial.tasks.values()) or 1}
        | {"files": list(row.trial.files), "runs": [asdict(run) for run in row.runs]}
        for row in rows
    ]
    return json.dumps(facts | {"settings": settings}) + "\n"


def as_csv(comparison: Comparison, target: float | None) -> str:
    """Return a line for each setting, with the columns of `summary`."""
    found = [summary(row, target) for row in comparison.rows()]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(found[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return text.getvalue()


def _number(value: float | None, form: str) -> str:
    return _UNKNOWN if value is None else format(value, form)


def _time(value: float | None) -> str:
    return _UNKNOWN if value is None else step_time(value)
