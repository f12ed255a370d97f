"""`tfscale-train run` as a user calls it: real TensorFlow under agents on this machine."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from example_programs import KERAS
from recording import Recording
from tfscale.trainer.launch.result import Result, read_result
from training.train_command import TRAIN, environment, left, start, train

PS = ("parameter-server", "--workers", "2", "--servers", "2")
EVERYDAY = [
    ("fit", ("multi-worker",), "ring", 2),
    ("fit", ("central-storage", "--replicas", "2"), "one device", 2),
]
CELLS: list[tuple[str, tuple[str, ...], str, int]] = [
    *EVERYDAY,
    ("fit", ("one-device",), "none", 1),
    ("fit", ("mirrored", "--replicas", "2"), "ring", 2),
    ("fit", ("mirrored", "--replicas", "3", "--reduction", "one-device"), "one device", 3),
    ("fit", ("mirrored", "--replicas", "4", "--reduction", "hierarchical-copy"), "hierarchical copy", 4),
    ("fit", ("mirrored", "--devices", "CPU:0"), "none", 1),
    ("fit", ("multi-worker", "--workers", "3", "--communication", "ring"), "ring", 3),
    ("fit", PS, "servers", 1),
    ("fit", (*PS, "--evaluators", "1"), "servers", 1),
    ("custom", ("mirrored", "--replicas", "2"), "ring", 2),
    ("custom", ("multi-worker",), "ring", 2),
    ("custom", ("central-storage", "--replicas", "2"), "one device", 2),
    ("custom", PS, "servers", 1),
]
PARTITIONED = [
    ("fit", (*PS, "--partitioner", "min-size", "--shard-bytes", "1000")),
    ("custom", (*PS, "--partitioner", "fixed")),
]
REFUSED = [
    (("mirrored", "--reduction", "nccl"), "mirrored: --reduction nccl: NCCL needs GPUs"),
    (("mirrored", "--devices", "CPU:0,CPU:0"), "--devices CPU:0,CPU:0: names a device twice"),
    (("mirrored", "--devices", "GPU:0,GPU:1"), "mirrored: --devices GPU:0,GPU:1: GPU:0, GPU:1 not here"),
    (("multi-worker", "--communication", "nccl"), "multi-worker: --communication nccl: NCCL needs a GPU"),
    (("one-device", "--device", "GPU:0"), "one-device: --device GPU:0: this host has CPU:0"),
    (("central-storage", "--parameter-device", "GPU:0"), "central-storage: --parameter-device: GPU:0 not here"),
    (("parameter-server", "--shards", "2"), "--shards 2: only with --partitioner"),
    (("parameter-server", "--partitioner", "fixed"), "--partitioner fixed: a variable of Keras 3"),
    (("tpu",), "tpu: --tpu local: no TPU answers"),
    (("tpu", "--tpu", "grpc://127.0.0.1:9"), "tpu: --tpu grpc://127.0.0.1:9: no TPU answers"),
]


def drawn(cases: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Mark every eighth case as `slow`, and the others as `matrix`."""
    return [
        pytest.param(*case, marks=pytest.mark.matrix if place % 8 else pytest.mark.slow)
        for place, case in enumerate(cases)
    ]


KERAS_CELLS = drawn([(*cell, keras) for cell in CELLS for keras in KERAS])


def check(result: Result, reduction: str, replicas: int) -> None:
    """Check that a run trained all steps, learnt something, and told the reduction that ran."""
    assert (result.reduction, result.replicas) == (reduction, replicas)
    assert result.loss[-1][0] == result.steps and result.final_loss is not None
    assert result.final_loss < 1.2 and result.accuracy["accuracy"] > 0.6
    assert result.weights == 188_234


@pytest.mark.tensorflow
@pytest.mark.parametrize(("loop", "strategy", "reduction", "replicas"), EVERYDAY)
def test_a_strategy_trains_and_tells_what_ran(
    loop: str, strategy: tuple[str, ...], reduction: str, replicas: int, tmp_path: Path
) -> None:
    check(train(tmp_path / "result.json", strategy, "--loop", loop, "--steps", "100"), reduction, replicas)


@pytest.mark.parametrize(("loop", "strategy", "reduction", "replicas", "keras"), KERAS_CELLS)
def test_every_strategy_trains_and_tells_what_ran(
    loop: str, strategy: tuple[str, ...], reduction: str, replicas: int, keras: str, tmp_path: Path
) -> None:
    result = train(tmp_path / "result.json", strategy, "--loop", loop, "--steps", "200", keras=keras)
    check(result, reduction, replicas)
    assert result.keras.startswith("tf_keras" if keras.startswith("tf") else "keras")


@pytest.mark.parametrize(("loop", "strategy"), drawn(PARTITIONED))
def test_tf_keras_trains_variables_in_parts(loop: str, strategy: tuple[str, ...], tmp_path: Path) -> None:
    words = ("--loop", loop, "--steps", "200")
    check(train(tmp_path / "result.json", strategy, *words, keras="tf_keras 2"), "servers", 1)


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "said"), REFUSED)
def test_what_cannot_run_here_is_refused_in_one_line(strategy: tuple[str, ...], said: str) -> None:
    ended = subprocess.run(
        start(strategy), env=environment("keras 3"), capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 2 and ended.stdout == ""
    refusal = [line for line in ended.stderr.splitlines() if line.startswith("tfscale-train: ")]
    assert len(refusal) == 1 and refusal[0].startswith(f"tfscale-train: {said}"), ended.stderr
    # What needs no TensorFlow is refused before a cluster starts.
    assert "--cluster" not in ended.stderr or left(ended.stderr) == []


@pytest.mark.tensorflow
def test_a_run_is_watched_interrupted_and_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    """The command that a run names shows its steps; ctrl-C leaves no process and a state to go on from."""
    out, folder = tmp_path / "run.jsonl", tmp_path / "checkpoints"
    mirrored = ("mirrored", "--replicas", "2", "--checkpoints", str(folder))
    with subprocess.Popen(
        start(mirrored, "--steps", "1000000"), env=environment("keras 3"), stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr is not None
        told = [run.stderr.readline(), run.stderr.readline()]
        console = [*told[1].split(), "--headless", "--out", str(out), "--seconds", "2"]
        subprocess.run([TRAIN.parent / console[0], *console[1:]], check=True, timeout=60)
        told.append(run.stderr.readline())
        run.send_signal(signal.SIGINT)
        rest = run.stderr.read()
        assert run.wait(30) == 130 and f"the same command goes on from the newest checkpoint in {folder}" in rest
    assert len(Recording.read(out).steps["worker:0"]["sequence"]) > 10
    assert told[2].startswith("step 100: mean loss") and left("".join(told)) == []
    made = max(int(path.stem.rpartition("-")[2]) for path in folder.glob("ckpt-*.index"))
    result = train(tmp_path / "result.json", mirrored, "--steps", str(made + 100), step=made + 100)
    assert (result.begin, result.steps, result.loss[0][0]) == (made, 100, made + 1)
    assert result.loss[0][1] < 1.0, "untrained it would be 2.3"


@pytest.mark.matrix
@pytest.mark.parametrize("keras", list(KERAS))
@pytest.mark.parametrize("loop", ["fit", "custom"])
def test_a_restart_that_is_asked_for_loses_no_step(loop: str, keras: str, tmp_path: Path) -> None:
    """All workers end after the same step, and go on after it; what worker 0 reported of its steps tells which."""
    out, folder, path = tmp_path / "run.jsonl", tmp_path / "checkpoints", tmp_path / "result.json"
    words = ("--loop", loop, "--steps", "503", "--checkpoints", str(folder), "--json", str(path))
    with subprocess.Popen(
        start(("multi-worker",), *words),
        env=environment(keras),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stderr is not None
        told = [run.stderr.readline(), run.stderr.readline()]
        command, *which = told[1].split()
        console = [TRAIN.parent / command, *which]
        with subprocess.Popen([*console, "--headless", "--out", str(out)]) as watching:
            assert run.stderr.readline().startswith("step 100: ")
            restart = [console[0], "restart", "worker:1", "--yes", *which]
            subprocess.run(restart, check=True, timeout=60)
            _, rest = run.communicate(timeout=200)
            watching.send_signal(signal.SIGINT)
        assert run.returncode == 0, rest
    result = read_result(path)
    assert 100 <= result.begin < 503 and result.begin + result.steps == 503
    assert (result.loss[0][0], result.loss[-1][0]) == (result.begin + 1, 503)
    for worker in ("worker:0", "worker:1"):
        sequence = Recording.read(out).steps[worker]["sequence"]
        (again,) = [place for place in range(1, len(sequence)) if sequence[place] < sequence[place - 1]]
        # The last steps before the end may not have been reported any more: never more than were saved.
        assert result.begin - 10 <= sequence[again - 1] + 1 <= result.begin
    assert left("".join(told)) == []
