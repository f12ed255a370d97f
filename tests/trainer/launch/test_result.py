"""Results, as they are written, read and shown."""

from __future__ import annotations

import json
import resource
from dataclasses import replace
from pathlib import Path

import pytest
from tfscale.core.errors import TfscaleError
from tfscale.trainer.launch.result import Result, describe, read_result

RESULT = Result(
    program="digits",
    strategy="multi-worker",
    options={"communication": "ring"},
    techniques={"accumulation": "4", "momentum": ""},
    input={"shuffle": "100", "cache": ""},
    loop="fit",
    keras="keras 3.15.0",
    tensorflow="2.21.0",
    tasks={"worker": 2},
    replicas=2,
    global_batch=128,
    seed=0,
    weights=188_234,
    begin=0,
    steps=12,
    seconds=4.0,
    first_steps=1,
    first_steps_seconds=1.5,
    steps_per_second=5.0,
    loss=[(step, float(step)) for step in range(1, 13)],
    accuracy={"loss": 0.25, "accuracy": 0.875},
    reduction="ring",
    reduction_ops={"CollectiveReduceV2 on CPU": 2},
    saved=["model.keras", "served"],
    files=["digits.py 0123456789ab"],
)


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    RESULT.write(path)
    read = read_result(path)
    assert replace(read, loss=[(step, loss) for step, loss in read.loss]) == RESULT
    document = json.loads(path.read_text())
    assert document["examples_per_second"] == 640 and document["final_loss"] == pytest.approx(7.5)


def test_the_lines_say_what_ran() -> None:
    lines = dict(line.split("  ", 1) for line in describe(RESULT).splitlines())
    told = {name.strip(): text.strip() for name, text in lines.items()}
    assert told["run"] == "digits, multi-worker, fit, accumulation=4 momentum"
    assert told["cluster"] == "2 worker; 2 replicas in a step"
    assert told["input"] == "shuffle=100 cache"
    assert told["reduction"] == "ring (2 CollectiveReduceV2 on CPU)"
    assert told["rate"] == "5.00 steps/s, 640.0 examples/s after the first step"
    assert told["steps"] == "12 in 4.0 s"
    assert told["saved"] == "model.keras, served" and "saved" not in describe(replace(RESULT, saved=[]))
    assert (told["loss"], told["held out accuracy"]) == ("7.5000, mean of the last 10 steps", "0.8750")


def test_a_run_that_went_on_or_whose_steps_were_not_seen_says_so() -> None:
    result = replace(RESULT, begin=100, steps=200, first_steps=50, loss=[(200, 2.0), (250, 1.0), (300, 0.5)])
    lines = describe(result)
    assert "200 in 4.0 s, after 100 earlier" in lines and "examples/s after the first 50 steps" in lines
    assert "0.5000, mean of the last epoch" in lines and result.final_loss == 0.5
    short = replace(result, steps=53, begin=0, loss=[(26, 2.0), (52, 1.0), (53, 0.5)])
    assert "0.7500, mean of the last 2 epochs" in describe(short)
    assert "0.5000, mean of the last 1 steps" in describe(replace(result, steps=1, loss=[(1, 0.5)]))
    assert "0.5000, mean of the last epoch" in describe(replace(result, steps=50, loss=[(50, 0.5)]))


def test_a_result_that_cannot_be_written_is_one_line() -> None:
    with pytest.raises(TfscaleError, match=r"^--json /dev/full: No space left on device$"):
        RESULT.write(Path("/dev/full"))


def test_an_older_result_stays_where_there_is_no_room_for_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("older")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(TfscaleError, match=f"^--json {path}: File too large$"):
            RESULT.write(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_text() == "older" and [*tmp_path.iterdir()] == [path]


def test_what_is_unknown_is_said_to_be_so() -> None:
    bare = replace(RESULT, steps_per_second=None, loss=[], reduction=None, reduction_ops={})
    assert bare.examples_per_second is None and bare.final_loss is None
    assert describe(bare).count("unknown") == 3
