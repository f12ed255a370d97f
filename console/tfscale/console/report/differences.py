"""Differences between runs: what was set, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from tfscale.console.analysis.run.goodput import PRODUCTIVE
from tfscale.console.report.measured_scaling import training_rate
from tfscale.console.report.run_report import RunGroup
from tfscale.console.report.timelines import PARTS
from tfscale.console.report.verdict import known_time, length
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.records.frame import Description
from tfscale.core.records.probe_status import ProbeStatus
from tfscale.core.records.training import display_of, paired, shown_name
from tfscale.core.text import UNKNOWN, data_size, displayed, four_digits, percent, step_time


@dataclass(frozen=True, slots=True)
class Difference:
    """Fact that is not the same in all runs."""

    name: str
    values: tuple[str, ...]
    """Value in each run, for people."""
    change: str = ""
    """Change from the first of two runs to the second, such as `+18%`; empty where there is none."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Facts of several runs."""

    runs: tuple[str, ...]
    """Names of the runs."""
    differences: tuple[Difference, ...]
    same: Mapping[str, str]
    """Settings that are the same in all runs."""


def compared(groups: Sequence[RunGroup]) -> Comparison | None:
    """Return the differences between runs, None for a single one."""
    if len(groups) < 2:
        return None
    names = list(dict.fromkeys(name for group in groups for name in group.settings))
    settings = {name: tuple(group.settings.get(name, UNKNOWN) for group in groups) for name in names}
    same = {name: values[0] for name, values in settings.items() if len(set(values)) == 1}
    different = [Difference(name, values) for name, values in settings.items() if name not in same]
    return Comparison(tuple(group.name for group in groups), (*different, *_results(groups)), same)


def settings_of(spec: ClusterSpec, probe: ProbeStatus | None, descriptions: Sequence[Description]) -> dict[str, str]:
    """Return what was set for a run, by its name for people, as far as the recording tells it."""
    commands = {" ".join(description.command) for description in descriptions}
    settings: dict[str, str | int | None] = {
        "command": commands.pop() if len(commands) == 1 else f"{len(commands)} commands" if commands else None,
        "files": ", ".join(sorted({file for each in descriptions for file in each.files})),
        "tasks": len(spec.tasks),
        "tfscale": ", ".join(sorted({each.version for each in descriptions})),
        "on_straggler": next((each.on_straggler for each in descriptions if each.on_straggler), None),
    }
    if probe is not None:
        settings |= {
            "strategy": probe.strategy,
            "replicas": probe.replicas,
            "TensorFlow": probe.tensorflow,
            "Keras": probe.keras,
            "dtype policy": probe.dtype_policy,
            "all-reduce": probe.collective,
            "reduced a step": data_size(probe.reduced_bytes_per_step) if probe.reduced_bytes_per_step else None,
            "reduced as": probe.wire_type,
            "examples a step": probe.examples_per_step,
            "micro-batches": probe.micro_batches,
            "local steps": probe.local_steps,
            "GPUs": probe.devices.gpus if probe.devices else None,
        }
    return {name: f"{value}" for name, value in settings.items() if value is not None and value != ""}


def _results(groups: Sequence[RunGroup]) -> Iterator[Difference]:
    """Yield the numbers of the runs, also where they happen to be equal."""
    rates = [training_rate(group) for group in groups]
    examples = [rate and group.examples and rate * group.examples for rate, group in zip(rates, groups, strict=True)]
    totals = [sum(group.spent.values()) for group in groups]
    shares = [group.spent[PRODUCTIVE] / total if total else None for group, total in zip(groups, totals, strict=True)]
    yield from _difference("length", [known_time(group) for group in groups], length)
    yield from _difference("steps", [group.steps for group in groups], "{:,.0f}".format)
    yield from _difference("steps/s while it trained", rates, four_digits)
    yield from _difference("examples/s while it trained", examples, four_digits)
    yield from _difference("productive", shares, percent)
    for place, part in enumerate(PARTS):
        yield from _difference(f"{part} of a step", [_median(group, place) for group in groups], step_time)
    for name in paired(name for group in groups for name in group.training):
        numbers = [group.training[name].last if name in group.training else None for group in groups]
        yield from _difference(f"last {shown_name(name)}", numbers, partial(displayed, display=display_of(name)))


def _median(group: RunGroup, place: int) -> float | None:
    """Return the median seconds of a part of the step over all workers and the whole run, None unknown."""
    seconds = group.timeline.values[place]
    seconds = seconds[np.isfinite(seconds)]
    return float(np.median(seconds)) if seconds.size else None


def _difference(name: str, values: Sequence[float | None], say: Callable[[float], str]) -> Iterator[Difference]:
    """Yield the row of a number that at least one run has."""
    if any(value is not None for value in values):
        texts = tuple(UNKNOWN if value is None else say(value) for value in values)
        yield Difference(name, texts, "" if say is percent else _change(values))


def _change(values: Sequence[float | None]) -> str:
    """Return the change from the first of two numbers to the second; empty where it is not known."""
    first, second = values if len(values) == 2 else (None, None)
    return f"{second / first - 1:+.0%}" if first is not None and second is not None and first > 0 else ""
