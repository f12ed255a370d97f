"""Runs beside each other: what differs between them, and their charts on the same scales."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import fakes
import pytest
from command_words import run_command
from simulated_runs import record, simulated
from tfscale.console.engine.events import AgentDescribed, FrameArrived
from tfscale.console.engine.model import TaskView
from tfscale.console.export.rows import AgentLines, event_line, frame_line, header
from tfscale.console.report.timelines import TrainingTimeline
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.core.records.task_status import TaskState
from tfscale.core.records.training import LoggedNumber, Training

SPEC = fakes.spec(2)


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    """Return a recording of two workers, and the lines of three, a second longer, as `--headless --out` writes them."""
    two = record(tmp_path / "two.tfrec", simulated(20), simulated_spec(2))
    spec, events = simulated_spec(3), simulated(21, 3)
    agents = AgentLines(spec)
    lines = [
        frame_line(each)
        if isinstance(each, FrameArrived)
        else agents.line(each)
        if isinstance(each, AgentDescribed)
        else event_line(each)
        for each in events
    ]
    three = tmp_path / "three.jsonl"
    three.write_text("".join(json.dumps(line) + "\n" for line in [header(spec, events[0].at), *filter(None, lines)]))
    return [str(two), str(three)]


def test_what_differs_between_two_runs_is_told_in_each_format(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command("report", *runs, "--format", "json") == 0
    comparison = json.loads(capsys.readouterr().out)["comparison"]
    differences = {each["name"]: each["values"] for each in comparison["differences"]}
    assert (comparison["runs"], differences["tasks"]) == (["two", "three"], ["2", "3"])
    assert comparison["same"]["command"] == "python train.py", "of the recording and of the lines"
    assert {"steps/s while it trained", "last loss", "last accuracy"} <= differences.keys()
    assert run_command("report", *runs) == 0
    text = capsys.readouterr().out
    assert re.search(r"What differs\n +two +three +change\n  tasks +2 +3\n", text)
    assert f"  the same: command: {comparison['same']['command']}, tfscale: " in text
    assert run_command("report", runs[0]) == 0
    assert "What differs" not in capsys.readouterr().out


def test_charts_of_two_runs_have_the_same_times_and_scales(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("report", *runs, "--format", "html") == 0
    page = capsys.readouterr().out
    pictures = dict(re.findall(r'aria-label="([^"]*)">(.*?)</svg>', page))
    for title in ("loss", "accuracy", "GPUs in use", "Temperature of the hottest GPU", "Sent over all interfaces"):
        axes = [re.findall(r"<text[^>]*>([^<]*)<", pictures[f"{title} {run}"]) for run in ("two", "three")]
        assert axes[0] == axes[1] and "0 s" in axes[0], title
    assert pictures["GPUs in use three"].count("<path") == 3, "a line for each rank"


def test_a_curve_is_of_the_first_task_that_reports_it_and_ends_with_the_task() -> None:
    def view(index: int, value: float, state: TaskState = TaskState.RUNNING) -> TaskView:
        made = fakes.task_view(SPEC, fakes.worker(index))
        assert made.frame is not None
        training = Training(loss=value, logs=(LoggedNumber("val_loss", value),) * index)
        status = replace(made.frame.status, state=state)
        return replace(made, frame=replace(made.frame, training=training, status=status))

    curves = TrainingTimeline()
    curves.add(1.0, [view(0, 3.0), view(1, 4.0)])
    curves.add(2.0, [view(0, 2.0, TaskState.EXITED), view(1, 4.0)])
    curves.add(3.0, [view(0, 2.0, TaskState.EXITED), view(1, 5.0)])
    assert curves.owners == {"loss": "worker:0", "val_loss": "worker:1"}
    values = dict(zip(curves.subjects, curves.values[0].T.tolist(), strict=True))
    assert values["val_loss"] == [4.0, 4.0, 5.0]
    assert values["loss"][:2] == [3.0, 2.0] and values["loss"][2] != values["loss"][2]
