"""Input pipelines of `tfscale-train run`: parts, the tf.data service, and what the probe measures of them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from task_cluster import run_program
from tfscale.trainer.launch.result import Result, read_result
from training.train_command import TRAIN, run_train

pytestmark = pytest.mark.alone

COSTLY = "shuffle=2000,map=1,work=20"
MIRRORED, WORKERS = ("mirrored", "--replicas", "2"), ("multi-worker",)
PS = ("parameter-server", "--workers", "2", "--servers", "1")
SERVED = [
    (("one-device",), "fit", "service=1,sharding=off", "keras 3"),
    (MIRRORED, "custom", "service=2", "keras 3"),
    (WORKERS, "fit", "service=2", "tf_keras 2"),
    (WORKERS, "custom", "service=1,sharding=off", "keras 3"),
    (PS, "fit", "service=1", "keras 3"),
    (PS, "custom", "service=1", "keras 3"),
    (("central-storage", "--replicas", "2"), "fit", "service=1", "keras 3"),
    (WORKERS, "fit", "auto-shard=data", "keras 3"),
    (WORKERS, "fit", "auto-shard=auto", "tf_keras 2"),
    (WORKERS, "custom", "auto-shard=off", "keras 3"),
    (WORKERS, "custom", "auto-shard=data", "tf_keras 2"),
]


def run(folder: Path, strategy: tuple[str, ...], *words: str, keras: str = "keras 3") -> subprocess.CompletedProcess:
    asked = ("digits", "--strategy", *strategy, *words, "--json", folder / "result.json")
    return run_train(*asked, keras=keras, timeout=140)


@pytest.mark.slow
def test_a_service_feeds_two_workers_and_ends_with_them(tmp_path: Path) -> None:
    parts = f"{COSTLY},prefetch=2,service=2"
    command = [TRAIN, "run", "digits", "--strategy", *WORKERS, "--steps", "100", "--input", parts]
    roles = {"worker": 2, "dispatcher": 1, "dataworker": 2}
    ran = run_program(tmp_path, [*command, "--json", tmp_path / "result.json"], roles, {}, 120)
    assert [ran.exit_code(task) for task in sorted(ran.ending)] == [0, 0], ran.logs["worker:0"][-2000:]
    result = read_result(tmp_path / "result.json")
    assert result.input == {name: value for name, _, value in (part.partition("=") for part in parts.split(","))} | {
        "sharding": "dynamic"
    }
    assert result.final_loss is not None and result.final_loss < 1.2
    for worker in ("worker:0", "worker:1"):
        ran.recording.assert_phases_known(worker)
    last = {frame["task"]: frame["status"]["state"] for frame in ran.recording.frames}
    assert {last[task] for task in ("dispatcher:0", "dataworker:0", "dataworker:1")} == {"exited"}


@pytest.mark.matrix
@pytest.mark.parametrize(("strategy", "loop", "parts", "keras"), SERVED)
def test_a_service_and_each_policy_run_under_the_strategies(
    strategy: tuple[str, ...], loop: str, parts: str, keras: str, tmp_path: Path
) -> None:
    words = ("--loop", loop, "--steps", "100", "--input", f"{COSTLY},{parts}")
    ran = run(tmp_path, strategy, *words, keras=keras)
    assert ran.returncode == 0, ran.stderr
    result = read_result(tmp_path / "result.json")
    assert parts.partition("=")[0] in result.input
    assert result.final_loss is not None and result.final_loss < 1.5 and result.accuracy["accuracy"] > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "parts", "shared_by"),
    [
        (MIRRORED, "cache", "2 replicas"),
        (MIRRORED, "service=1", "2 replicas"),
        (WORKERS, "auto-shard=data", "2 workers"),
        (WORKERS, "service=1", "2 workers"),
    ],
)
def test_a_batch_that_cannot_be_shared_is_one_line(
    strategy: tuple[str, ...], parts: str, shared_by: str, tmp_path: Path
) -> None:
    ran = run(tmp_path, strategy, "--global-batch", "65", "--input", parts)
    refused = [line for line in ran.stderr.splitlines() if line.startswith("tfscale-train: ")]
    assert (ran.returncode, ran.stdout, len(refused)) == (2, "", 1)
    assert f"--global-batch 65: not divisible by {shared_by}" in refused[0]


class Measured:
    """Steps of one run under agents, the second half of them."""

    def __init__(self, folder: Path, parts: str, service: int = 0) -> None:
        folder.mkdir()
        command = [TRAIN, "run", "digits", "--steps", "100", "--input", parts, "--json", folder / "result.json"]
        roles: dict[str, Any] = {"worker": 1} | ({"dispatcher": 1, "dataworker": service} if service else {})
        ran = run_program(folder, command, roles, {}, 140)
        assert ran.exit_code("worker:0") == 0, ran.logs["worker:0"][-2000:]
        columns = ran.recording.steps["worker:0"]
        self.result: Result = read_result(folder / "result.json")
        # Means: a service's batches come in bursts, so that most steps wait for nothing and some for long.
        self.input, self.compute = (1e3 * fmean(columns[phase][50:]) for phase in ("input", "compute"))
        ends = columns["end"]
        self.step = 1e3 * (ends[-1] - ends[50]) / (len(ends) - 51)


@pytest.mark.matrix
def test_each_part_takes_its_share_of_the_input_phase(tmp_path: Path) -> None:
    """Runs of one program whose input is costly; the numbers are those of docs/how-to/input.md."""
    variants = {
        "nothing": COSTLY,
        "map=auto": COSTLY.replace("map=1", "map=auto"),
        "prefetch=2": f"{COSTLY},prefetch=2",
        "map=auto,prefetch=auto": COSTLY.replace("map=1", "map=auto") + ",prefetch=auto",
        "cache": f"{COSTLY},cache",
        "service=2,prefetch=2": f"{COSTLY},service=2,prefetch=2",
    }
    found = {}
    for number, (name, parts) in enumerate(variants.items()):
        found[name] = each = Measured(tmp_path / str(number), parts, 2 * ("service" in parts))
        print(f"{name:24} input {each.input:7.1f} ms, compute {each.compute:7.1f} ms, step {each.step:7.1f} ms")
    # Not map=auto, nor the service: both need cores that are idle.
    plain = found["nothing"].input
    assert found["cache"].input < 0.2 * plain and found["prefetch=2"].input < 0.8 * plain
