"""Programs for workers of unequal speed: asynchrony, backup workers, batch by speed, as a user calls them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from example_programs import KERAS
from task_cluster import Ran, run_program
from training.train_command import TRAIN, run_train

pytestmark = pytest.mark.alone

PAGES = Path(__file__).parents[3] / "docs" / "how-to" / "techniques"


def train(program: str, path: Path, *words: str, keras: str = "keras 3") -> tuple[Any, str]:
    """Return the result that a program has written, and what it has printed."""
    ended = run_train(program, *words, "--json", path, keras=keras)
    assert ended.returncode == 0, ended.stderr
    return json.loads(path.read_text()), ended.stdout


def run_page(name: str, folder: Path, roles: dict[str, int]) -> Ran:
    """Run the code of a page as all tasks of a cluster, in view of a console."""
    (code,) = re.findall(r"^```python\n(.*?)^```", (PAGES / f"{name}.md").read_text(), re.MULTILINE | re.DOTALL)
    (folder / "page.py").write_text(code)
    ran = run_program(folder, [sys.executable, folder / "page.py"], roles, {"TF_NUM_INTRAOP_THREADS": "1"}, 100)
    assert all(ran.exit_code(task) == 0 for task in ran.ending), ran.logs
    assert {f"worker:{index}" for index in range(roles["worker"])} <= set(ran.recording.steps)
    return ran


@pytest.mark.matrix
def test_each_update_tells_its_staleness_and_a_slow_worker_has_that_of_the_ratio_of_rates(tmp_path: Path) -> None:
    slow = "--slow", "worker:0=60ms", "--slow", "worker:1=220ms"
    result, said = train("asynchrony", tmp_path / "result.json", "--steps", "68", *slow)
    assert [number for number, _ in result["loss"]] == list(range(1, 69))
    rows = [result["staleness"][f"worker:{index}"] for index in (0, 1)]
    assert sum(row["updates"] for row in rows) == 68 - 8
    assert all(sum(row["histogram"].values()) == row["updates"] for row in rows)
    assert rows[1]["expected"] > 1.7 and rows[1]["mean"] == pytest.approx(rows[1]["expected"], rel=0.2)
    assert rows[0]["mean"] < 1 and re.search(r"worker:1 +\d+ +\d\.\d\d +\d\.\d\d   \d:", said)


@pytest.mark.matrix
@pytest.mark.parametrize("keras", list(KERAS))
def test_a_worker_that_computes_three_times_as_long_is_as_stale_as_its_rate_says(keras: str, tmp_path: Path) -> None:
    words = "--batch", "512", "--steps", "150", "--slow", "worker:1=3x"
    result, _ = train("asynchrony", tmp_path / "result.json", *words, keras=keras)
    of_slow = result["staleness"]["worker:1"]
    assert of_slow["mean"] == pytest.approx(of_slow["expected"], rel=0.2)
    assert result["accuracy"]["accuracy"] > 0.9


@pytest.mark.matrix
@pytest.mark.parametrize("keras", list(KERAS))
def test_with_a_backup_worker_a_step_is_as_long_as_that_of_the_fast_ones(keras: str, tmp_path: Path) -> None:
    fast = "--steps", "25", "--needed", "2", "--slow", "worker:0=200ms", "--slow", "worker:1=200ms"
    two, _ = train("backup-workers", tmp_path / "two.json", "--workers", "2", *fast, keras=keras)
    three, _ = train("backup-workers", tmp_path / "three.json", *fast, "--slow", "worker:2=1050ms", keras=keras)
    assert three["step_seconds"] < 1.15 * two["step_seconds"]
    assert three["gradients"]["worker:2"]["late"] > 3 > three["gradients"]["worker:2"]["used"]
    assert sum(row["used"] for row in three["gradients"].values()) == 50
    assert three["accuracy"]["accuracy"] > 0.6 and three["final_loss"] == pytest.approx(two["final_loss"], abs=0.3)


@pytest.mark.matrix
def test_shares_follow_speeds_and_the_training_is_that_of_the_even_split(tmp_path: Path) -> None:
    words = "--steps", "25", "--global-batch", "256", "--slow", "worker:1=2x"
    by_speed, said = train("batch-by-speed", tmp_path / "speed.json", *words)
    even, _ = train("batch-by-speed", tmp_path / "even.json", *words, "--split", "even")
    assert even["shares"] == [128, 128] and sum(by_speed["shares"]) == 256 and by_speed["shares"][1] < 110
    assert [loss for _, loss in by_speed["loss"]] == pytest.approx([loss for _, loss in even["loss"]], rel=0.01)
    assert "worker:1           " in said


@pytest.mark.matrix
def test_by_speed_a_step_takes_at_most_a_tenth_more_than_if_no_worker_waited(tmp_path: Path) -> None:
    words = "--steps", "50", "--global-batch", "4096", "--slow", "worker:1=2x"
    result, _ = train("batch-by-speed", tmp_path / "result.json", *words)
    assert result["step_seconds"] < 1.1 * result["ideal_seconds"]
    assert result["speeds"][0] > 1.7 * result["speeds"][1]
    assert result["shares"][0] / 4096 == pytest.approx(result["speeds"][0] / sum(result["speeds"]), rel=0.1)


@pytest.mark.matrix
def test_the_code_of_the_page_about_asynchrony_tells_the_staleness_of_each_update(tmp_path: Path) -> None:
    ran = run_page("asynchrony", tmp_path, {"chief": 1, "worker": 2, "ps": 1})
    (told,) = re.findall(r"^staleness \[(.*)\]$", ran.logs["chief:0"], re.MULTILINE)
    staleness = [int(number) for number in told.split(",")]
    assert len(staleness) == 100 and min(staleness) >= 0 and max(staleness) > 0


@pytest.mark.matrix
def test_the_code_of_the_page_about_backup_workers_makes_its_updates(tmp_path: Path) -> None:
    ran = run_page("backup-workers", tmp_path, {"chief": 1, "worker": 3, "ps": 1})
    assert re.search(r"^updates 30 late \d+$", ran.logs["chief:0"], re.MULTILINE)


@pytest.mark.matrix
def test_the_code_of_the_page_about_batch_by_speed_splits_the_batch(tmp_path: Path) -> None:
    ran = run_page("batch-by-speed", tmp_path, {"worker": 2})
    told = [re.findall(r"^shares \[ *(\d+) +(\d+)\] loss (\S+)$", log, re.MULTILINE) for log in ran.logs.values()]
    assert told[0] == told[1] and sum(map(int, told[0][0][:2])) == 256


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "words", "said"),
    [
        ("asynchrony", ("--slow", "worker:2=3x"), "tfscale-train: --slow worker:2: the workers are 0 to 1"),
        ("backup-workers", ("--needed", "4"), "tfscale-train: --needed 4: from 1 to 3, the number of workers"),
        ("batch-by-speed", ("--global-batch", "1"), "tfscale-train: --global-batch 1: at least one example"),
        (
            "asynchrony",
            ("--slow", "worker:1=fast"),
            "tfscale-train: argument --slow: 'worker:1=fast' is not a slow worker",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(program: str, words: tuple[str, ...], said: str) -> None:
    ended = subprocess.run([TRAIN, "run", program, *words], capture_output=True, text=True, timeout=120, check=False)
    refusal = [line for line in ended.stderr.splitlines() if line.startswith("tfscale-train")]
    assert ended.returncode == 2 and ended.stdout == "" and len(refusal) == 1 and refusal[0].startswith(said), (
        ended.stderr
    )
