"""A watch over real agents: it is there before them, is killed, goes on in the same recording, and sees runs end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from local_cluster import running, wait_until, write_cluster
from tfscale.console.engine.events import FrameArrived, SecondPassed
from tfscale.console.recording.recording_folder import open_recording, recordings_in
from tfscale.console.recording.recording_reader import Recording, RecordingError
from tfscale.console.recording.recording_tail import read_tail
from tfscale.core.cluster.task import Task

pytestmark = pytest.mark.slow
SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]
ENDS = [sys.executable, "-c", "import time; time.sleep(1)"]


@contextmanager
def watching(cluster: Path, runs: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tfscale.console.cli", "watch", "--cluster", cluster, "--runs", runs]
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        process.terminate()
        assert process.wait(60) in (0, -9)


def folders(runs: Path) -> list[Path]:
    return sorted(path.parent for path in runs.glob("*/run.json"))


def facts(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return document


def newest(runs: Path) -> dict[Task, FrameArrived]:
    """Return the newest recorded frame of each task, of the newest run."""
    try:
        return dict(read_tail(recordings_in(folders(runs)[-1])[-1]).frames)
    except (IndexError, RecordingError):
        return {}


def have_run(runs: Path, frames: int) -> bool:
    known = newest(runs)
    return len(known) == 2 and all(each.frame.sequence >= frames for each in known.values())


def sequences(recording: Recording) -> dict[Task, list[int]]:
    found: dict[Task, list[int]] = {}
    for event in recording.events():
        if isinstance(event, FrameArrived):
            found.setdefault(event.task, []).append(event.frame.sequence)
    return found


def test_a_watch_that_was_killed_goes_on_in_the_same_recording_without_a_gap_or_a_double(tmp_path: Path) -> None:
    cluster, runs = write_cluster(tmp_path, 2), tmp_path / "runs"
    with watching(cluster, runs) as watch, running(tmp_path, cluster, 2, SLEEPS, {}):
        wait_until(lambda: have_run(runs, 3))
        watch.kill()
        watch.wait()
        last = {task: each.frame.sequence for task, each in newest(runs).items()}
        with watching(cluster, runs):
            wait_until(lambda: have_run(runs, 5 + max(last.values())))
    (folder,) = folders(runs)
    recording = open_recording(folder)
    found = sequences(recording)
    assert recording.damage is None and [path.name for path in recordings_in(folder)] == ["0001.tfrec"]
    assert all(each == list(range(each[-1] + 1)) and each[-1] > last[task] for task, each in found.items())
    # On a busy machine frames arrive before a second is told that is over.
    seconds = [event.at for event in recording.events() if isinstance(event, SecondPassed)]
    assert seconds == sorted(set(seconds)), "a second was judged twice"


def test_a_run_that_ends_has_a_report_and_the_next_one_a_folder_of_its_own(tmp_path: Path) -> None:
    cluster, runs = write_cluster(tmp_path, 2), tmp_path / "runs"
    with watching(cluster, runs):
        with running(tmp_path, cluster, 2, ENDS, {}):
            wait_until(lambda: bool(folders(runs)) and (folders(runs)[0] / "report.txt").exists())
        with running(tmp_path, cluster, 2, SLEEPS, {}):
            wait_until(lambda: len(folders(runs)) == 2 and have_run(runs, 3))
    first, second = folders(runs)
    assert facts(first)["how"] == "all tasks have ended well" and (first / "report.html").exists()
    assert "run cluster" in (first / "report.txt").read_text()
    assert facts(second)["ended"] is None
    generations = {e.frame.status.generation for e in open_recording(second).events() if isinstance(e, FrameArrived)}
    assert 2 in generations and 1 not in generations, "frames of the run before"
