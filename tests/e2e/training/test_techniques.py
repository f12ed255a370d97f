"""Techniques of `tfscale-train run` over two workers under agents, as the probe counts and the console judges them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from example_programs import KERAS
from task_cluster import run_program
from tfscale.trainer.launch.catalogue import entries
from tfscale.trainer.launch.result import read_result
from training.train_command import TRAIN, run_train

WEIGHTS = 188_234
# One core for each of the two workers.
THREADS = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "2"}


class Run:
    """A run of `digits` over two workers, and what worker 0 reported of it."""

    def __init__(self, folder: Path, techniques: str = "", steps: int = 100, keras: str = "keras 3", *words: str):
        command = [TRAIN, "run", "digits", "--strategy", "multi-worker", "--steps", str(steps), *words]
        command += ["--json", folder / "result.json", *(["--with", techniques] if techniques else [])]
        folder.mkdir(exist_ok=True)
        ran = run_program(folder, command, {"worker": 2}, KERAS[keras] | THREADS, 200)
        assert [ran.exit_code(task) for task in sorted(ran.ending)] == [0, 0], ran.logs["worker:0"][-2000:]
        self.recording = ran.recording
        self.result = read_result(folder / "result.json")
        self.last = [frame for frame in ran.recording.frames if frame["task"] == "worker:0"][-1]
        self.steps = ran.recording.steps["worker:0"]

    @property
    def bytes(self) -> int:
        """Bytes of a step's gradients that the probe counted."""
        return int(self.last["probe"]["reduced_bytes_per_step"])

    @property
    def collectives(self) -> int:
        """All collectives that worker 0 has left, also those of metrics."""
        return int(self.last["collective"]["left"])

    @property
    def faults(self) -> list[Mapping[str, Any]]:
        return [each for each in self.recording.diagnoses if each["severity"] not in ("info", "note")]


@pytest.mark.matrix
@pytest.mark.tensorflow
def test_accumulation_in_bfloat16_on_the_wire_is_one_all_reduce_of_half_the_bytes_in_each_step(tmp_path: Path) -> None:
    run = Run(tmp_path, "accumulation=4,mixed=bfloat16,wire=bfloat16", 200)
    assert run.steps["sequence"] == list(range(200))  # a step of the probe is an all-reduce of gradients
    assert run.bytes == 2 * WEIGHTS
    assert run.last["probe"]["examples_per_step"] == 128
    for worker in ("worker:0", "worker:1"):
        run.recording.assert_phases_known(worker)
    assert run.faults == []
    assert run.result.reduction == "ring"
    assert run.result.final_loss is not None and run.result.final_loss < 0.8


@pytest.mark.matrix
@pytest.mark.parametrize("keras", list(KERAS))
@pytest.mark.parametrize("loop", ["fit", "custom"])
def test_four_micro_batches_have_a_quarter_of_the_all_reduces_of_four_steps(
    tmp_path: Path, keras: str, loop: str
) -> None:
    cut = Run(tmp_path / "cut", "accumulation=4", 20, keras, "--loop", loop, "--batch", "64")
    steps = Run(tmp_path / "steps", "", 80, keras, "--loop", loop, "--batch", "16")
    assert len(steps.steps["sequence"]) == 4 * len(cut.steps["sequence"]) == 80
    assert steps.bytes == cut.bytes == 4 * WEIGHTS
    # All collectives, also those of metrics and of the reported loss: as many in each step, and some at begin and end.
    in_a_step, rest = divmod(steps.collectives - cut.collectives, 80 - 20)
    assert in_a_step > 0 == rest and 0 <= cut.collectives - 20 * in_a_step < 20, (steps.collectives, cut.collectives)


PS = ("parameter-server", "--workers", "2", "--servers", "2")
MIRRORED = ("mirrored", "--replicas", "2")
TOGETHER = [
    (("one-device",), "accumulation=4,mixed=bfloat16,learning-rate=20:cosine", "fit", "tf_keras 2"),
    (MIRRORED, "accumulation=4,mixed=bfloat16,wire=bfloat16,learning-rate=20", "fit", "keras 3"),
    (MIRRORED, "accumulation=2,mixed=bfloat16,local-sgd=8", "custom", "keras 3"),
    (MIRRORED, "accumulation=2,mixed=bfloat16,top-k=0.05", "custom", "tf_keras 2"),
    (("multi-worker",), "accumulation=4,wire=bfloat16,learning-rate=20,packs=64KiB", "custom", "keras 3"),
    (("multi-worker",), "accumulation=2,mixed=bfloat16,local-sgd=8", "fit", "keras 3"),
    (("multi-worker",), "accumulation=2,mixed=bfloat16,top-k=0.05", "fit", "tf_keras 2"),
    (PS, "accumulation=4,mixed=bfloat16,learning-rate=20:staircase", "fit", "keras 3"),
    (("central-storage", "--replicas", "2"), "accumulation=4,mixed=bfloat16", "custom", "tf_keras 2"),
]
"""Drawn sample: each technique with each strategy that does not refuse it, in one loop and with one Keras."""


@pytest.mark.matrix
@pytest.mark.parametrize(("strategy", "techniques", "loop", "keras"), TOGETHER)
def test_techniques_run_together(
    strategy: tuple[str, ...], techniques: str, loop: str, keras: str, tmp_path: Path
) -> None:
    words = ["--strategy", *strategy, "--with", techniques, "--loop", loop, "--steps", "200"]
    ended = run_train("digits", *words, "--json", tmp_path / "result.json", keras=keras)
    assert ended.returncode == 0, ended.stderr
    result = read_result(tmp_path / "result.json")
    assert result.final_loss is not None and result.final_loss < 1.2 and result.accuracy["accuracy"] > 0.6
    assert (result.reduction == "none") == (strategy == ("one-device",))


def test_the_table_of_cells_is_that_of_the_modules_and_each_cell_that_runs_is_tried() -> None:
    page = (Path(__file__).parents[3] / "docs/how-to/techniques/README.md").read_text()
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in page.splitlines() if "|" in line]
    strategies = rows[0][1:]
    assert sorted(strategies) == sorted(entries("strategy"))
    written = {row[0]: dict(zip(strategies, row[1:], strict=True)) for row in rows[2:]}
    assert sorted(written) == sorted(entries("technique"))
    tried = {(word.partition("=")[0], strategy[0]) for strategy, words, *_ in TOGETHER for word in words.split(",")}
    for name, technique in entries("technique").items():
        refused = technique.constants.get("REFUSED", {})  # some by several facts, which refuse no whole cell
        for strategy, cell in written[name].items():
            expected = "refused" if strategy in refused else "runs" if (name, strategy) in tried else "untried"
            assert cell == expected, (name, strategy)
