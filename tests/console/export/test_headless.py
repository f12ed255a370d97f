"""`tfscale-console --headless` as a script runs it, against fake agents over real gRPC."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import fakes
import pytest
from command_words import run_command
from fake_agent import FakeCluster
from tfscale.console.analysis.stragglers.straggler_rule import Suspect
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import FrameArrived
from tfscale.console.export.headless import Headless
from tfscale.console.export.outputs import JsonLines
from tfscale.console.recording.recording_writer import RecordingWriter
from tfscale.core.records.task_status import Exit, TaskState
from tfscale.core.wire.json_records import frame_from_json

CONSOLE = [sys.executable, "-m", "tfscale.console.cli", "--headless"]


async def run(*arguments: str | Path) -> tuple[int | None, str, str]:
    """Run the console, and return its exit status, stdout and stderr."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*CONSOLE, *map(str, arguments), stdout=pipe, stderr=pipe)
    out, err = await asyncio.wait_for(process.communicate(), 30)
    return process.returncode, out.decode(), err.decode()


@pytest.fixture
async def cluster_file(tmp_path: Path):  # type: ignore[no-untyped-def]
    async with FakeCluster(2, interval=0.2) as cluster:
        path = tmp_path / "fake.toml"
        path.write_text(cluster.cluster_file())
        playing = asyncio.create_task(cluster.play())
        yield path
        playing.cancel()


async def test_every_line_is_json_and_seconds_end_it(cluster_file: Path) -> None:
    status, out, err = await run("--cluster", cluster_file, "--seconds", "2")
    assert (status, err) == (0, "")
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines[0]["type"] == "header" and lines[0]["tasks"] == ["worker:0", "worker:1"]
    frames = [frame_from_json(line) for line in lines if line["type"] == "frame"]
    assert {task for task, _ in frames} == {"worker:0", "worker:1"}
    assert any(batch.sequence for _, frame in frames for batch in frame.steps)
    assert {line["state"] for line in lines if line["type"] == "link"} == {"connecting", "up"}


async def test_out_writes_a_file(cluster_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    assert await run("--cluster", cluster_file, "--seconds", "1", "--out", out) == (0, "", "")
    assert json.loads(out.read_text().splitlines()[0])["type"] == "header"


async def test_a_reader_that_goes_ends_it_quietly(cluster_file: Path) -> None:
    command = " ".join([*CONSOLE, "--cluster", str(cluster_file), "| head -n 1"])
    process = await asyncio.create_subprocess_shell(
        command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), 30)
    assert json.loads(out)["type"] == "header"
    assert err == b""


async def test_a_full_disk_is_one_line(cluster_file: Path) -> None:
    status, _, err = await run("--cluster", cluster_file, "--seconds", "1", "--out", "/dev/full")
    assert status == 1
    assert err.startswith("tfscale-console: --out /dev/full: No space left") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cluster", "missing.toml"], "no such cluster file"),
        (["--seconds", "0"], "--seconds"),
        (["--nonsense"], "--help shows how"),
    ],
)
async def test_mistakes_are_one_line(arguments: list[str], said: str) -> None:
    status, out, err = await run(*arguments)
    assert (status, out) == (2, "")
    assert said in err and err.count("\n") == 1


def test_a_recording_that_dies_ends_the_run_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flush(_: RecordingWriter) -> None:
        raise MemoryError

    monkeypatch.setattr(RecordingWriter, "flush", flush)
    record, out = str(tmp_path / "run.tfrec"), str(tmp_path / "out.jsonl")
    with pytest.raises(MemoryError):
        run_command("--simulate", "2", "--headless", "--seconds", "1", "--record", record, "--out", out)


def test_what_becomes_of_a_task_is_an_event_whoever_asked_for_it() -> None:
    spec, out = fakes.spec(2), io.StringIO()
    headless = Headless(
        Engine(fakes.ScriptedSource(spec), lambda: fakes.folded(spec)), JsonLines(out, {}), only="events"
    )
    (task, *_) = spec.tasks
    killed = fakes.status(TaskState.EXITED, exit=Exit(at=fakes.NOW, code=None, signal=9, requested=False))
    again = fakes.status(TaskState.RUNNING, generation=2, reason="restarted by itself after worker:0 was killed")
    for status in (fakes.status(), fakes.status(), killed, again, again):
        headless.event_folded(FrameArrived(fakes.NOW, task, fakes.frame(task, of=status), b""))
    lines = [json.loads(line) for line in out.getvalue().splitlines()[1:]]
    assert [(line["type"], line["state"]) for line in lines] == [
        ("task", "running"),
        ("task", "exited"),
        ("task", "running"),
    ]
    assert lines[1]["exit"]["signal"] == 9 and lines[2]["reason"].startswith("restarted by itself")


@pytest.mark.parametrize(("only", "written"), [(None, ["worker:1", None]), ("events", [])])
def test_who_looks_slow_is_a_line_when_that_changes_and_no_event(only: str | None, written: list[str | None]) -> None:
    spec, out = fakes.spec(2), io.StringIO()
    engine = Engine(fakes.ScriptedSource(spec), lambda: fakes.folded(spec))
    headless = Headless(engine, JsonLines(out, {}), only=only)
    for at, begin in ((10.0, None), (11.0, 7.0), (12.0, 7.1), (13.0, None), (14.0, None)):
        suspect = Suspect("worker:1", begin) if begin else None
        found = replace(fakes.healthy_findings(spec), suspect=suspect)
        headless.snapshot_taken(fakes.folded(spec, *fakes.healthy_events(spec), findings=found).snapshot(at))
    lines = [json.loads(line) for line in out.getvalue().splitlines()[1:]]
    assert [line["subject"] for line in lines] == written
    assert all(line["type"] == "suspect" for line in lines)
    if lines:
        assert lines[0]["sentence"] == "worker:1 looks slow, 4 s; not yet beyond noise"
        assert (lines[0]["begin"], lines[1]["time"], lines[1]["sentence"]) == (7.0, 13.0, None)
