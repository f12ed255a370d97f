"""Several recorded runs of different size: their throughputs, and the forecast for larger ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_words import run_command
from phase_simulation import Simulation
from tfscale.console.analysis.findings import Findings, SubjectSummary
from tfscale.console.report.measured_scaling import scaling_over_runs
from tfscale.console.report.run_report import RunGroup
from tfscale.console.report.timelines import PhaseTimeline
from tfscale.core.wire.json_records import frame_to_json


def group(workers: int, step: float, examples: int | None = None) -> RunGroup:
    """Return a run of this many workers with steps of this many seconds."""
    timeline = PhaseTimeline()
    summary = SubjectSummary(update=0.0, host=0.0, input=0.0, compute=step, reduce=0.0, wait=0.0)
    subjects = {f"worker:{index}": summary for index in range(workers)}
    timeline.add(1.0, Findings(step_time=step, steps_per_second=1 / step, subjects=subjects))
    return RunGroup(f"{workers}", timeline, {}, 10, 0.0, 1.0, workers=workers, examples=examples)


def test_runs_of_three_sizes_forecast_the_next() -> None:
    """A tenth of one worker's step cannot be shared out, as in Amdahl's law."""
    steps = {count: 0.1 * (1 + 0.1 * (count - 1)) for count in (1, 2, 4)}
    found = scaling_over_runs([group(count, step, 64 * count) for count, step in reversed(steps.items())])
    assert found is not None
    assert found.unit == "examples/s"
    assert found.measured == tuple((count, pytest.approx(64 * count / step)) for count, step in steps.items())
    assert found.efficiencies == pytest.approx((1.0, 1 / 1.1, 1 / 1.3))
    assert found.forecast is not None
    assert found.forecast.workers == 8
    assert found.forecast.low <= 64 * 8 / 0.17 <= found.forecast.high


def test_two_sizes_are_compared_and_forecast_nothing() -> None:
    found = scaling_over_runs([group(8, 0.1), group(50, 0.2), group(8, 0.15)])
    assert found is not None
    assert (found.unit, found.forecast) == ("worker-steps/s", None)
    assert found.measured[0] == (8, pytest.approx(80.0))
    assert found.efficiencies[1] == pytest.approx(0.5)
    assert found.published == "Inception on ImageNet 32x on 50"


def test_one_size_says_nothing_of_scaling() -> None:
    assert scaling_over_runs([group(2, 0.1), group(2, 0.1)]) is None
    assert scaling_over_runs([]) is None


def test_several_recordings_are_one_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [write(tmp_path / f"run-{workers}.jsonl", workers) for workers in (1, 2, 4)]
    assert run_command("report", *map(str, paths)) == 0
    out = capsys.readouterr().out
    assert out.startswith("3 runs\n")
    assert "The last steps of run-2, medians" in out
    assert "Scaling over the runs, examples/s" in out
    assert "      8 workers " in out
    assert run_command("report", *map(str, paths), "--format", "html") == 0
    assert 'aria-label="measured scaling"' in capsys.readouterr().out


def write(path: Path, workers: int) -> Path:
    cluster = {"cluster": {"worker": [f"10.0.0.{index}:1" for index in range(workers)]}}
    lines = [{"type": "header", "schema": 1, "run": path.stem, "cluster": cluster}]
    for task in cluster["cluster"]["worker"]:
        name = f"worker:{cluster['cluster']['worker'].index(task)}"
        lines.append({"type": "link", "schema": 1, "time": 0.0, "task": name, "state": "up", "reason": ""})
    lines += [frame_to_json(task, frame) for task, frame in Simulation(workers, 20.0, 20.0).frames()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
