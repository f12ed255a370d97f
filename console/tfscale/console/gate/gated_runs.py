"""Runs that the gate compares, read from recordings and from results of programs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tfscale.console.engine.events import AgentDescribed, FrameArrived
from tfscale.console.gate.compared_runs import COMPARED, compared_runs, is_comparison
from tfscale.console.gate.gated_run import STEP, GatedRun
from tfscale.console.report.differences import settings_of
from tfscale.console.report.run_file import open_run
from tfscale.core.comparison.step_times import FEWEST_STEPS, is_apart, settled, step_times
from tfscale.core.errors import UsageError
from tfscale.core.records.frame import Description, Frame
from tfscale.core.records.probe_status import ProbeStatus
from tfscale.core.records.step_batch import PHASES, StepBatch
from tfscale.core.validation import LATEST

_ENDINGS = (".tfrec", ".jsonl", COMPARED)
_LEAST_STEP = 1e-8
"""Seconds that every step takes."""


def read_set(name: str) -> list[GatedRun]:
    """Return the run of a file, all runs of a folder, or those of one setting of a comparison.

    Raises UsageError, and RecordingError for damaged files.
    """
    return [_checked(run) for run in _runs(name)]


def _checked(run: GatedRun) -> GatedRun:
    """Return the run without phases that take no time, which have no logarithm. Raises UsageError."""
    seconds = {(worker, part): time for (worker, part), time in run.seconds.items() if time or part == STEP}
    for (worker, part), time in seconds.items():
        # Of a step: that of ends which do not rise is the least that step_times returns.
        if not isinstance(time, int | float) or not (_LEAST_STEP if part == STEP else 0) < time < LATEST:
            raise UsageError(f"{run.path}: its {part} of {worker} has no time above 0 that a step can have")
    return replace(run, seconds=seconds)


def _runs(name: str) -> list[GatedRun]:
    path = Path(name)
    file, _, setting = name.partition(f"{COMPARED}:")
    if setting and not path.exists():
        return compared_runs(Path(file + COMPARED), setting)
    if not path.is_dir():
        return compared_runs(path, None) if is_comparison(path) else [_read(path)]
    paths = sorted(each for each in path.iterdir() if each.suffix in _ENDINGS)
    if not paths:
        raise UsageError(f"{path}: has no run in it: recordings end in .tfrec or .jsonl, results in .json")
    if any(map(is_comparison, paths)):
        raise UsageError(f"{path}: has a comparison among its runs; name it, such as {path / paths[0].name}:SETTING")
    return [_read(each) for each in paths]


def _read(path: Path) -> GatedRun:
    run = _of_result(path) if path.suffix == ".json" else _of_recording(path)
    if not run.seconds:
        raise UsageError(f"{path}: no worker has made {FEWEST_STEPS} steps in it, of which the first tenth is left out")
    return run


def _of_result(path: Path) -> GatedRun:
    """Read what `tfscale-train run --json` has written."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        rate, facts = result["steps_per_second"], dict(_facts_of_result(result))
        is_known = rate is not None and result["steps"] >= FEWEST_STEPS
        seconds = {("all", STEP): rate and 1 / rate} if is_known else {}
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{path}: is no result that tfscale-train run --json has written") from None
    return GatedRun(path, facts, seconds)


def _facts_of_result(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("program", "strategy", "loop", "techniques", "input", "weights", "replicas"):
        yield name, f"{result[name]}"
    if files := result.get("files"):
        yield "files", ", ".join(files)
    yield "examples a step", f"{result['global_batch']}"
    yield "tasks", f"{sum(result['tasks'].values())}"
    yield "TensorFlow", f"{result['tensorflow']}"
    yield "Keras", f"{result['keras']}"


def _of_recording(path: Path) -> GatedRun:
    source = open_run(path)
    descriptions: dict[str, Description] = {}
    probe: ProbeStatus | None = None
    hardware: dict[str, tuple[int, str]] = {}
    batches: dict[str, list[StepBatch]] = defaultdict(list)
    apart: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for event in source.events:
        if isinstance(event, AgentDescribed):
            descriptions[str(event.task)] = event.description
        elif isinstance(event, FrameArrived):
            probe = event.frame.probe or probe
            _observe(hardware, str(event.task), event.frame)
            activities = event.frame.activities
            apart[str(event.task)] += [
                (each.begin, each.end) for each in activities if each.end is not None and is_apart(each.kind)
            ]
            for batch in event.frame.steps:
                if "/" not in batch.subject:
                    batches[batch.subject].append(batch)
    facts = settings_of(source.spec, probe, list(descriptions.values()))
    if hardware:
        facts["cores"] = ", ".join(str(cores) for cores in sorted({cores for cores, _ in hardware.values()}))
        facts["GPU model"] = ", ".join(sorted({gpu for _, gpu in hardware.values()}))
    seconds = {
        (worker, part): time for worker, own in batches.items() for part, time in _parts(own, apart[own[0].reporter])
    }
    return GatedRun(path, {name: value for name, value in facts.items() if value}, seconds)


def _observe(hardware: dict[str, tuple[int, str]], task: str, frame: Frame) -> None:
    if task not in hardware and frame.host is not None:
        hardware[task] = frame.host.cores, ", ".join(sorted(gpu.name for gpu in frame.gpus))


def _parts(batches: Sequence[StepBatch], apart: Sequence[tuple[float, float]]) -> Iterator[tuple[str, float]]:
    """Yield the mean of the whole step, from one end to the next, and that of each known phase."""
    attempts: dict[tuple[int, int, int], list[StepBatch]] = defaultdict(list)
    for batch in batches:
        attempts[batch.generation, batch.attempt, batch.part].append(batch)
    ends = [np.concatenate([np.asarray(batch.end) for batch in own]) for own in attempts.values()]
    if sum(map(len, ends)) < FEWEST_STEPS:
        return
    yield STEP, float(settled(np.concatenate([step_times(each, apart) for each in ends])).mean())
    for phase in PHASES:
        known = settled(np.concatenate([np.asarray(getattr(batch, phase), dtype=float) for batch in batches]))
        known = known[np.isfinite(known)]
        if known.size:
            yield phase, float(known.mean())
