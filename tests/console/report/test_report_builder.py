"""`report RECORDING` of a simulated run, written as `--headless --out` writes it, in each format."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import subprocess
import sys
from array import array
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import fakes
import numpy as np
import pytest
from command_words import run_command
from phase_simulation import Simulation
from simulated_runs import simulated
from tfscale.console.analysis.findings import Findings, SubjectSummary
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import SecondPassed
from tfscale.console.engine.state_factory import states
from tfscale.console.recording.recording_reader import RecordingError
from tfscale.console.recording.recording_writer import ActiveRecording
from tfscale.console.report.formats.svg_plots import COLOURS, events, per_worker, steps_by_phase, ticks
from tfscale.console.report.report_builder import report_recorded
from tfscale.console.report.run_file import open_run
from tfscale.console.report.timelines import MOST_POINTS, PhaseTimeline
from tfscale.console.sources.recorded import RecordedSource
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.console.sources.simulation.step_phases import Slow
from tfscale.console.tui.widgets.appearance.theme import LIGHT
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame
from tfscale.core.records.probe_status import Activity, ActivityKind, Collective, ProbeState, ProbeStatus
from tfscale.core.records.task_status import TaskState, TaskStatus
from tfscale.core.records.training import TRAINING_DISPLAYS
from tfscale.core.text import moment
from tfscale.core.wire.json_records import frame_to_json

BEGIN = 1_800_000_000.0
"""Begin of the recording, Unix seconds."""


@pytest.fixture
def recording(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a run of three workers, 60 s at 20 steps a second."""

    def make(*slow: Slow, more: str = "") -> Path:
        path = tmp_path / "run.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines(*slow)) + more)
        return path

    return make


def lines(*slow: Slow) -> Iterator[dict[str, object]]:
    workers = [f"worker:{index}" for index in range(3)]
    cluster = {"worker": [f"10.0.0.{index}:1" for index in range(3)]}
    yield {"type": "header", "schema": 1, "time": BEGIN, "run": "digits", "cluster": {"cluster": cluster}}
    for task in workers:
        yield {"type": "link", "schema": 1, "time": BEGIN, "task": task, "state": "up", "reason": ""}
    for task, frame in Simulation(3, 20.0, 60.0, slow=slow).frames():
        yield moved(frame_to_json(task, frame))
    yield {"type": "diagnosis", "schema": 1, "kind": "straggler", "subject": "worker:0", "sentence": "made anew"}


def moved(document: dict[str, object]) -> dict[str, object]:
    """Move a frame from the beginning of 1970 to BEGIN, and return it."""
    document["time"] = BEGIN + float(str(document["time"]))
    status = document["status"]
    assert isinstance(status, dict)
    status["started"] = BEGIN
    for batch in document["steps"]:  # type: ignore[attr-defined]
        batch["end"] = [BEGIN + end for end in batch["end"]]
    return document


def test_json_has_everything_that_the_other_formats_show(
    recording: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command("report", str(recording(Slow(1, extra=0.05, begin=20.0))), "--format", "json") == 0
    document = json.loads(capsys.readouterr().out)
    (found,), (run,) = document["findings"], document["runs"]
    assert (found["kind"], found["subject"], found["end"]) == ("straggler", "worker:1", None)
    assert found["begin"] == pytest.approx(BEGIN + 20.0, abs=2.0)
    assert found["remedy"].startswith("take a profile")
    assert found["lost_seconds"] == pytest.approx(40 * (1 - 1 / found["evidence"]["slowdown"]), rel=0.1)
    assert found["worst_minute_lost"] * 60 == pytest.approx(found["lost_seconds"], rel=0.1)
    assert (found["gpu_hours"], run["gpus"]) == (None, None), "nobody has told its GPUs"
    assert (run["begin"], run["end"]) == (BEGIN, BEGIN + 60)
    assert run["steps"] == pytest.approx(60 * 20 / 1.5, rel=0.3), "of one worker, not of all three"
    assert run["steps_per_second"] == pytest.approx(run["steps"] / 60)
    assert sum(run["spent"].values()) == pytest.approx(60, abs=1.5)
    assert [*run["last_steps"]] == ["worker:0", "worker:1", "worker:2"]
    assert document["facts"]["from"] == moment(BEGIN) and document["scaling"] is None


async def recorded_live(path: Path) -> list[Diagnosis]:
    """Record a simulated run as a watching console does; return every diagnosis as that console found it last."""
    spec, heard, tape = simulated_spec(3), fakes.Told(), ActiveRecording(simulated_spec(3))
    events = simulated(75, 3, "worker:1=1.8x@6s-30s", "worker:2=kill@45s-50s")
    tape.begin(path, events[0].at)
    await Engine(RecordedSource(spec, events), states(spec), tape.write).run(heard)
    tape.end()
    found = [diagnosis for snapshot in heard.snapshots for diagnosis in snapshot.findings.diagnoses]
    return list({(diagnosis.kind, diagnosis.subject, diagnosis.begin): diagnosis for diagnosis in found}.values())


def test_a_report_finds_what_the_console_found_that_recorded_the_run(tmp_path: Path) -> None:
    path = tmp_path / "run.tfrec"
    live = asyncio.run(recorded_live(path))
    reported = report_recorded(path, open_run(path)).diagnoses
    assert {diagnosis.kind for diagnosis in reported} == {"straggler", "crash"}
    assert sorted(reported, key=str) == sorted(live, key=str)


def test_text_tells_what_happened_where_the_time_went_and_what_would_be(
    recording: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command("report", str(recording(Slow(1, extra=0.05, begin=20.0)))) == 0
    out = capsys.readouterr().out
    assert out.startswith("run digits\n")
    assert (
        re.search(r"serious +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d to the end +straggler\n +worker:1 is ", out)
        or "critical" in out
    )
    assert "Where the time went: goodput " in out
    assert re.search(r"stragglers +\d+\.\d%", out)
    assert re.search(r"6 workers +\d.* to \d", out)
    assert re.search(r"worker:1 .* \d\.\d\d\n", out)


def troubled() -> Iterator[dict[str, object]]:
    """Yield the lines of a run in which worker:2 joins 40 s late, and worker:1 is stuck after a minute of steps."""
    yield from itertools.islice(lines(), 4)
    running = TaskStatus(TaskState.RUNNING, 1, 1, started=0.0)
    compiling = (Activity(ActivityKind.COMPILE, BEGIN + 30.0, BEGIN + 40.0),)
    for second in range(1, 41):
        for index in range(3):
            status = running if index < 2 else TaskStatus(TaskState.PENDING)
            waiting = Frame(second, float(second), status, ProbeStatus(ProbeState.WAITING) if index < 2 else None)
            yield moved(
                frame_to_json(f"worker:{index}", replace(waiting, activities=compiling if second == 40 else ()))
            )
    for task, frame in Simulation(3, 20.0, 60.0).frames():
        steps = tuple(replace(batch, end=array("d", [40.0 + end for end in batch.end])) for batch in frame.steps)
        yield moved(frame_to_json(task, replace(frame, at=40.0 + frame.at, steps=steps)))
        entered = frame.collective.entered if frame.collective else 0
    for second in range(101, 176):
        for index in range(3):
            inside = Collective(entered + (index != 1), entered)
            probe = ProbeStatus(ProbeState.MEASURING)
            still = Frame(second, float(second), running, probe, collective=inside)
            yield moved(frame_to_json(f"worker:{index}", still))


def test_who_joined_late_who_got_stuck_and_where_the_time_went(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in troubled()))
    assert run_command("report", str(path), "--format", "json") == 0
    late, stuck = json.loads(capsys.readouterr().out)["findings"]
    assert (late["kind"], late["subject"], late["end"]) == ("not_started", "worker:2", pytest.approx(BEGIN + 41, abs=2))
    assert (stuck["kind"], stuck["subject"], stuck["end"]) == ("hang", "worker:1", None)
    assert stuck["begin"] == pytest.approx(BEGIN + 100, abs=2)
    assert run_command("report", str(path)) == 0
    out = capsys.readouterr().out
    assert "worker:1 has been stuck" in out
    shares = {bucket: float(share) for bucket, share in re.findall(r"^  ([a-z ]+?) +(\d+\.\d)%", out, re.MULTILINE)}
    assert shares["start"] == pytest.approx(100 * 30 / 175, abs=2)
    assert shares["compile"] == pytest.approx(100 * 10 / 175, abs=2)
    assert shares["standstill"] == pytest.approx(100 * 75 / 175, abs=2)
    assert re.search(r"1 hang, worker:1, cost 7[345] s", out) and "nothing explains" not in out
    assert shares["productive"] == pytest.approx(100 * 60 / 175 * 0.85, abs=3)
    assert sum(shares.values()) == pytest.approx(100, abs=0.5)


def test_all_plots_have_the_whole_run_below_each_other_and_no_steps_where_there_were_none(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in troubled()))
    (group,) = report_recorded(path, open_run(path)).groups
    assert (group.begin, group.end) == (BEGIN, BEGIN + 175)
    at, parts = group.timeline.at - BEGIN, group.timeline.values
    came, stopped = parts[:, at < 100], parts[:, at > 115]
    assert np.isfinite(came).all()
    assert stopped.shape[1] > 50 and np.isnan(stopped).all()
    report = report_recorded(path, open_run(path))
    pictures = [plot(report, report.groups[0]) for plot in (events, steps_by_phase, per_worker)]
    moments = [re.findall(r">(\d\d:\d\d:\d\d)</text>", picture) for picture in pictures]
    assert moments[0] == moments[1] == moments[2]


def test_a_healthy_run_says_so(recording: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("report", str(recording())) == 0
    assert "  nothing: nobody straggled, crashed or hung" in capsys.readouterr().out


class _Page(HTMLParser):
    """Parser that fails on unclosed elements, and remembers the addresses that a browser would fetch."""

    VOID = ("meta",)

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.labels: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [f"{tag} {name}" for name, _ in attrs if name in ("src", "href", "xlink:href")]
        self.labels += [value or "" for name, value in attrs if name == "aria-label"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag, attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_fetches_nothing_and_has_its_plots(recording: Callable[..., Path], tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert (
        run_command("report", str(recording(Slow(1, extra=0.05, begin=20.0))), "--format", "html", "--out", str(out))
        == 0
    )
    text = out.read_text()
    page = _Page()
    page.feed(text)
    assert (page.open, page.fetched) == ([], [])
    assert "http" not in text
    assert "<script" not in text
    assert page.labels == ["events", "steps by phase", "time of each worker", "goodput", "scaling"]
    assert "nan" not in "".join(re.findall(r'd="[^"]*"', text))
    assert "worker:1 has been " in text


def test_what_a_recording_says_is_not_markup(recording: Callable[..., Path], tmp_path: Path) -> None:
    path = recording()
    path.write_text(path.read_text().replace('"digits"', '"a.b"').replace("MultiWorker", "<script>x</script>Multi"))
    out = tmp_path / "report.html"
    run_command("report", str(path), "--format", "html", "--out", str(out))
    assert "<script" not in out.read_text()


def test_the_training_is_told_from_its_first_number_to_its_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, recorder = tmp_path / "run.tfrec", ActiveRecording(simulated_spec(2))
    events = simulated(8)
    recorder.begin(path, events[0].at)
    for event in events:
        recorder.write(event)
    recorder.end()
    assert run_command("report", str(path)) == 0
    table = re.search(r"The training\n +first +lowest +highest +last\n((?:  .+\n)+)", capsys.readouterr().out)
    assert table is not None
    rows = {row[:22].strip(): row[22:].split() for row in table[1].splitlines()}
    assert list(rows) == [*(name.replace("_", " ") for name in TRAINING_DISPLAYS), "accuracy"]
    assert rows["epoch"] == ["1"] * 4 and rows["learning rate"] == ["0.001"] * 4
    first, lowest, highest, last = map(float, rows["loss"])
    assert rows["grad norm"] == rows["loss"]
    assert first == highest > last == lowest > 0
    assert run_command("report", str(path), "--format", "html") == 0
    assert f"<td>loss</td><td>{rows['loss'][0]}</td>" in capsys.readouterr().out


def test_the_last_loss_of_a_training_that_lost_it_is_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__).parents[2] / "data" / "runs" / "not-a-number.tfrec"
    assert run_command("report", str(path)) == 0
    out = capsys.readouterr().out
    assert re.search(r"\n  loss .* not finite\n", out)
    assert "; 1 loss that is no number" in out.splitlines()[1]


def test_a_line_that_was_cut_off_at_the_end_is_left_out(recording: Callable[..., Path]) -> None:
    events = open_run(recording(more='{"type": "frame", "schema": 1, "ta')).events
    assert sum(not isinstance(event, SecondPassed) for event in events) == 3 + 3 * 60


def test_a_broken_line_in_the_middle_is_named(recording: Callable[..., Path]) -> None:
    path = recording(more='{"type": "frame", "schema": 1, "task": "worker:0", "time": 1}\n')
    with pytest.raises(RecordingError, match=r"run\.jsonl: line 186: not a Frame"):
        report_recorded(path, open_run(path))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name either a recording or --csv FILE"),
        (["a", "--csv", "b"], "name either a recording or --csv FILE"),
        (["a", "--format", "pdf"], "--format: 'pdf' is none of text, json, html"),
        (["/no/such.jsonl"], "/no/such.jsonl: cannot be read: No such file or directory"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(arguments: list[str], says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tfscale.console.cli", "report", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("tfscale-console: ")
    assert says in done.stderr


def test_a_long_run_has_coarser_points_not_more_of_them() -> None:
    timeline = PhaseTimeline()
    for second in range(10_000):
        timeline.add(
            float(second),
            Findings(steps_per_second=1.0, step_time=0.1, subjects={"worker:0": SubjectSummary(compute=0.1)}),
        )
    assert MOST_POINTS / 2 <= len(timeline.at) <= MOST_POINTS
    assert timeline.at[-1] >= 9_900
    assert timeline.values.shape == (6, len(timeline.at), 1)


def test_ticks_are_round() -> None:
    assert ticks(0.0, 0.107) == pytest.approx([0.0, 0.05, 0.1])
    assert ticks(0.0, 9.0) == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert ticks(1.0, 1.0) == [1.0]


def test_phases_have_the_colours_of_the_screens() -> None:
    assert LIGHT.parts == COLOURS
