"""`./scripts/demo --headless` as a user runs it: real TensorFlow workers, agents and console."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from local_cluster import wait_until
from recording import Recording

pytestmark = pytest.mark.alone

DEMO = Path(__file__).parents[3] / "scripts" / "demo_cluster.py"
WINDOW = 10.0
"""Seconds of the straggler rule's window for two and three workers."""
MARK = "TFSCALE_TEST_DEMO"
"""Variable by which the processes of a demo are found: agents hand their environment on."""
EQUAL_SECONDS = 60
"""Seconds for which equal workers train."""


def marked(out: Path) -> dict[str, str]:
    """Return the environment of the demo that writes this file."""
    return os.environ | {MARK: str(out)}


def demo(out: Path, seconds: int, *arguments: str) -> Recording:
    """Run it, require that it ended well and left nothing behind, and return what it wrote."""
    command = [sys.executable, DEMO, "--headless", "--seconds", str(seconds), "--out", out, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 120, check=False, env=marked(out))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [process.cmdline() for process in psutil.process_iter() if _is_of(process, {MARK: str(out)})] == []
    return Recording.read(out)


def assert_in_step(run: Recording, workers: int, least: int) -> None:
    """Require that all workers have as many steps at the same pace, each with five known phases."""
    assert sorted(run.steps) == [f"worker:{index}" for index in range(workers)]
    times = [run.step_time(subject) for subject in run.steps]
    assert max(times) / min(times) < 1.05
    for subject, columns in run.steps.items():
        run.assert_phases_known(subject)
        assert columns["sequence"] == list(range(len(columns["sequence"])))
        assert len(columns["sequence"]) >= least


def assert_only_straggler(run: Recording, subject: str, begin: float, noticed_by: float) -> None:
    told = run.told("straggler")
    assert {diagnosis["subject"] for diagnosis in told} == {subject}
    first = told[0]
    assert abs(first["begin"] - run.first_step_of_all - begin) <= WINDOW + 2
    assert first["evidence"]["noticed"] - run.first_step_of_all <= noticed_by


@pytest.mark.tensorflow
def test_a_slow_worker_is_named_with_its_phase_and_named_again_by_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, recorded, replayed = tmp_path / "run.jsonl", tmp_path / "run.tfrec", tmp_path / "again.jsonl"
    monkeypatch.setenv("TFSCALE_RECORD", str(recorded))
    run = demo(live, 25, "--slow", "worker:1=60ms")
    monkeypatch.delenv("TFSCALE_RECORD")
    assert_in_step(run, 2, least=100)
    difference = run.median("worker:1", "compute") - run.median("worker:0", "compute")
    assert difference == pytest.approx(0.06, rel=0.2)
    assert_only_straggler(run, "worker:1", 0, WINDOW + 4)
    assert run.told("straggler")[0]["evidence"]["phase"] == "compute"
    command = [sys.executable, "-m", "tfscale.console.cli", "export", recorded, "--out", replayed]
    subprocess.run(command, check=True, timeout=60)
    assert Recording.read(replayed).diagnoses == run.diagnoses


@pytest.mark.slow
@pytest.mark.parametrize(
    ("subject", "slow", "begin", "phase"),
    [
        pytest.param("worker:1", "60ms", 0, "compute", marks=pytest.mark.matrix),
        pytest.param("worker:0", "1.3x@30s", 30, "compute", marks=pytest.mark.matrix),
        ("worker:1", "30ms,input", 0, "input"),
    ],
)
def test_each_kind_of_slowness_is_named(tmp_path: Path, subject: str, slow: str, begin: int, phase: str) -> None:
    run = demo(tmp_path / "run.jsonl", begin + 50, "--slow", f"{subject}={slow}")
    assert_in_step(run, 2, least=200)
    assert_only_straggler(run, subject, begin, begin + 4 * WINDOW)
    assert run.told("straggler")[0]["evidence"]["phase"] == phase


@pytest.mark.matrix
@pytest.mark.parametrize("workers", [2, 3])
def test_equal_workers_are_not_named(tmp_path: Path, workers: int) -> None:
    run = demo(tmp_path / "run.jsonl", EQUAL_SECONDS, "--workers", str(workers))
    assert_in_step(run, workers, least=5 * EQUAL_SECONDS)
    assert run.told("straggler") == []


@pytest.mark.matrix
def test_a_worker_that_is_killed_is_started_again_and_all_go_on_from_their_checkpoint(tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    command = [sys.executable, DEMO, "--headless", "--seconds", "75", "--out", out]
    demo = subprocess.Popen(command, env=marked(out))
    wait_until(lambda: out.exists() and len(Recording.read(out).steps.get("worker:1", {}).get("end", ())) > 150)
    trains = {MARK: str(out), "TFSCALE_TASK": "worker:1"}
    (killed,) = (each for each in psutil.process_iter() if _is_of(each, trains) and "digits" in each.cmdline())
    killed.kill()
    assert demo.wait(200) == 0
    batches = [batch for frame in Recording.read(out).frames for batch in frame["steps"]]
    for subject in ("worker:0", "worker:1"):
        of_generation = {
            number: [batch for batch in batches if batch["subject"] == subject and batch["generation"] == number]
            for number in (1, 2)
        }
        first, last = of_generation[2][0]["global_step"][0], of_generation[1][-1]["global_step"][-1]
        assert first % 100 == 1 and last - 100 < first <= last + 1


def _is_of(process: psutil.Process, variables: dict[str, str]) -> bool:
    try:
        return variables.items() <= process.environ().items()
    except psutil.Error:
        return False


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--slow", "worker:7=60ms"], "the tasks are worker:0, worker:1"),
        (["--slow", "worker:1=60"], "is not a delay"),
        (["--slow", "60ms"], "write TASK=DELAY"),
        (["--workers", "0"], "from 1 to 16"),
        (["--out", "x"], "--headless"),
    ],
)
def test_mistakes_are_one_clear_line(arguments: list[str], said: str) -> None:
    headless = [] if "--out" in arguments else ["--headless"]
    ended = subprocess.run([sys.executable, DEMO, *headless, *arguments], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert said in ended.stderr.splitlines()[-1]
