"""Lines and tables, rotated; what a script waits for; and who is told."""

from __future__ import annotations

import asyncio
import csv
import http.server
import io
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import fakes
import pytest
from tfscale.console import rows
from tfscale.console.events import CommandProgressed, Event, FrameArrived, LinkChanged, LinkState, SecondPassed, Stage
from tfscale.console.notify import Notifier
from tfscale.console.once import is_healthy, snapshot_line
from tfscale.console.outputs import Csv, JsonLines, Parquet, Rotated
from tfscale.console.state import ClusterState
from tfscale.console.until import StopCondition
from tfscale.core.analysis.diagnose import Findings
from tfscale.core.records import Diagnosis, Exit, TaskState

SPEC = fakes.spec(2)
FIRST, SECOND = fakes.worker(0), fakes.worker(1)
ARRIVED = FrameArrived(fakes.NOW, FIRST, fakes.frame(FIRST))


def state(*events: Event, findings: Findings | None = None) -> ClusterState:
    folded = ClusterState(SPEC, fakes.FakeAnalysis(findings))
    for event in events:
        folded.fold(event)
    return folded


def ended(code: int) -> list[Event]:
    status = fakes.status(TaskState.EXITED, pid=None, exit=Exit(code, None, fakes.NOW))
    return [FrameArrived(fakes.NOW, task, fakes.frame(task, 5, of=status)) for task in SPEC.tasks]


def test_steps_are_rows_of_documented_columns() -> None:
    first, *_ = rows.step_rows(ARRIVED)
    assert list(first) == [name for name, _ in rows.STEP_COLUMNS]
    assert (first["subject"], first["sequence"], first["compute"]) == ("worker:0", 3, pytest.approx(0.04))
    batch = replace(ARRIVED.frame.steps[0], global_step=(), input=())
    unknown = replace(ARRIVED, frame=replace(ARRIVED.frame, steps=(batch,)))
    assert next(iter(rows.step_rows(unknown)))["input"] is None
    assert [line["type"] for line in rows.step_lines(ARRIVED)] == ["step"] * 3


def test_frames_are_flat_rows_also_where_most_is_unknown() -> None:
    row = rows.frame_row(ARRIVED)
    assert list(row) == [name for name, _ in rows.FRAME_COLUMNS]
    assert (row["status_state"], row["host_task_cpu"], row["host_throttled"]) == ("running", 9.4, None)
    assert json.loads(row["host_interfaces"])[0]["name"] == "eth0"
    bare = replace(ARRIVED, frame=replace(ARRIVED.frame, host=None, probe=None, collective=None))
    assert list(rows.frame_row(bare)) == list(row)


def test_events_are_lines_and_rows() -> None:
    progress = CommandProgressed(fakes.NOW, "restart", Stage.FAILED, (FIRST, SECOND), 2, "why")
    lines = [rows.event_line(LinkChanged(1.0, FIRST, LinkState.DOWN, "cut")), rows.event_line(progress)]
    lines.append(rows.diagnosis_line(fakes.straggler(), 7.0))
    table = [rows.event_row(line) for line in lines if line]
    assert [(row["type"], row["time"], row["subject"], row["kind"]) for row in table] == [
        ("link", 1.0, "worker:0", "down"),
        ("command", fakes.NOW, "worker:0, worker:1", "failed"),
        ("diagnosis", 7.0, "worker:1", "straggler"),
    ]
    assert all(list(row) == [name for name, _ in rows.EVENT_COLUMNS] for row in table)
    assert rows.event_line(SecondPassed(1.0)) is None and rows.event_line(ARRIVED) is None


def test_csv_has_its_columns_first_and_nothing_for_the_unknown() -> None:
    file = io.StringIO()
    table = Csv(file, rows.FRAME_COLUMNS)
    table.write(rows.frame_row(ARRIVED))
    assert table.size() == len(file.getvalue())
    (row,) = csv.DictReader(io.StringIO(file.getvalue()))
    assert (row["task"], row["host_throttled"], row["status_attempt"]) == ("worker:0", "", "1")


def test_parquet_has_types_and_nulls(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "steps.parquet"
    table = Parquet(path.open("wb"), rows.STEP_COLUMNS)
    for row in rows.step_rows(ARRIVED):
        table.write({**row, "input": None})
    table.close()
    read = parquet.read_table(path)
    assert read.num_rows == 3 and str(read.schema.field("end").type) == "double"
    assert read.column("sequence").to_pylist() == [3, 4, 5] and read.column("input").null_count == 3


def test_rotation_keeps_so_many_and_each_begins_with_its_header(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    output = Rotated(path, 200, 2, lambda: JsonLines(path.open("w"), {"type": "header"}))
    for number in range(10):
        output.write({"number": number, "fill": "x" * 100})
        output.flush()
    output.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["run.jsonl", "run.jsonl.1", "run.jsonl.2"]
    for file in tmp_path.iterdir():
        first, *_ = file.read_text().splitlines()
        assert json.loads(first) == {"type": "header"}
    last = json.loads((tmp_path / "run.jsonl.1").read_text().splitlines()[-1])
    assert last["number"] == 9


@pytest.mark.parametrize(
    ("conditions", "code", "met", "over"),
    [
        (("finished",), 0, "finished", True),
        (("failed",), 1, "failed", True),
        (("finished",), 1, None, True),
        (("failed", "finished"), 0, "finished", True),
        (("straggler",), 0, None, True),
    ],
)
def test_until_the_tasks_have_ended(conditions: tuple[str, ...], code: int, met: str | None, over: bool) -> None:
    running, until = state(*fakes.healthy_events(SPEC)), StopCondition(conditions)
    assert not until.is_over(running.snapshot(1.0), running)
    for event in ended(code):
        running.fold(event)
    assert until.is_over(running.snapshot(2.0), running) is over and until.met == met


def test_until_somebody_straggles() -> None:
    slow = state(*fakes.healthy_events(SPEC), findings=fakes.straggler_findings(SPEC))
    until = StopCondition(("straggler",))
    assert until.is_over(slow.snapshot(1.0), slow) and until.met == "straggler"


def test_seconds_count_from_the_first_step_of_all() -> None:
    until, folded = StopCondition(seconds=5.0), state()
    assert not until.is_over(folded.snapshot(100.0), folded)
    for event in fakes.healthy_events(SPEC):
        folded.fold(event)
    assert [until.is_over(folded.snapshot(at), folded) for at in (101.0, 105.0, 106.0)] == [False, False, True]


def test_health_is_all_up_or_ended_well_and_no_grave_diagnosis() -> None:
    healthy = state(*fakes.healthy_events(SPEC), findings=fakes.healthy_findings(SPEC)).snapshot(fakes.NOW)
    assert is_healthy(healthy)
    assert is_healthy(state(*fakes.healthy_events(SPEC), *ended(0)).snapshot(fakes.NOW))
    assert not is_healthy(state(*fakes.healthy_events(SPEC), *ended(1)).snapshot(fakes.NOW))
    assert not is_healthy(state(*fakes.cut_events(SPEC)).snapshot(fakes.NOW))
    slow = state(*fakes.healthy_events(SPEC), findings=fakes.straggler_findings(SPEC)).snapshot(fakes.NOW)
    assert not is_healthy(slow)
    line = json.loads(json.dumps(snapshot_line(slow), allow_nan=False))
    assert (line["healthy"], line["diagnoses"][0]["kind"], len(line["tasks"])) == (False, "straggler", 2)
    assert line["tasks"][1]["summary"]["ratio"] == 2.13


def told(diagnosis: Diagnosis) -> dict[str, object]:
    return rows.diagnosis_line(diagnosis, fakes.NOW)


async def test_a_command_gets_each_event_that_matters_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    notifier = Notifier(
        f'cat >> {log}; echo "$TFSCALE_EVENT_KIND $TFSCALE_EVENT_SEVERITY" >> {log.with_suffix(".words")}'
    )
    link = {"type": "link", "task": "worker:0", "reason": ""}
    for state_ in ("up", "down", "refused", "up", "up"):
        notifier.report({**link, "state": state_})
    for sentence in ("slow", "slower"):
        notifier.report(told(fakes.straggler(sentence)))
    notifier.report(told(fakes.straggler("much slower", severity="critical")))
    notifier.report(told(fakes.straggler("much slower", end=fakes.NOW, severity="critical")))
    notifier.close()
    await notifier.run()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line.get("sentence") or line["state"] for line in lines] == [
        "down",
        "up",
        "slow",
        "much slower",
        "much slower",
    ]
    assert log.with_suffix(".words").read_text().splitlines()[2:4] == ["straggler serious", "straggler critical"]
    failing = Notifier("exit 3")
    failing.report(told(fakes.straggler()))
    failing.close()
    await failing.run()
    assert "exited 3" in capfd.readouterr().err


class _Hook(http.server.BaseHTTPRequestHandler):
    got: list[dict[str, object]]
    statuses: list[int]

    def do_POST(self) -> None:
        self.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.statuses.pop(0) if self.statuses else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def hook() -> Iterator[tuple[str, type[_Hook]]]:
    handler = type("Hook", (_Hook,), {"got": [], "statuses": []})
    server = http.server.HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook", handler
    server.shutdown()
    server.server_close()
    thread.join()


async def test_a_webhook_gets_events_and_is_tried_again(
    hook: tuple[str, type[_Hook]], capsys: pytest.CaptureFixture[str]
) -> None:
    url, handler = hook
    handler.statuses = [503, 200, 404]
    notifier = Notifier(webhook=url)
    notifier.report(told(fakes.straggler("first")))
    notifier.report(told(replace(fakes.straggler("second"), subject="worker:0")))
    notifier.close()
    await asyncio.wait_for(notifier.run(), 20)
    assert [line["sentence"] for line in handler.got] == ["first", "first", "second"]
    assert "404" in capsys.readouterr().err
