"""Mistakes in the flags of a program that trains in its own way are one line."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.trainer.launch.program_flags import above_0, check_divides, check_steps, command_line, seed, write_json


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many"])
def test_a_number_is_whole_and_above_0(text: str) -> None:
    parser = command_line("pipeline", "Pipeline.")
    parser.add_argument("--stages", type=above_0)
    assert parser.parse_args(["--stages", "4"]).stages == 4
    with pytest.raises(UsageError, match=f"argument --stages: '{text}' is not a whole number above 0"):
        parser.parse_args([f"--stages={text}"])


@pytest.mark.parametrize("digits", [20, 5000], ids=str)
def test_a_number_is_one_that_tensorflow_can_take(digits: int) -> None:
    parser = command_line("pipeline", "Pipeline.")
    parser.add_argument("--steps", type=above_0)
    parser.add_argument("--seed", type=seed)
    for name in ("steps", "seed"):
        with pytest.raises(UsageError, match=f"argument --{name}: 9+ is more than 2147483647;"):
            parser.parse_args([f"--{name}={'9' * digits}"])


def test_a_seed_is_from_0_on() -> None:
    parser = command_line("asynchrony", "Asynchrony.")
    parser.add_argument("--seed", type=seed)
    assert parser.parse_args(["--seed=0"]).seed == 0
    with pytest.raises(UsageError, match="argument --seed: '-1' is not a whole number from 0 on"):
        parser.parse_args(["--seed=-1"])


def test_a_result_is_written_into_a_folder_that_is_there(tmp_path: Path) -> None:
    parser = command_line("pipeline", "Pipeline.")
    assert parser.parse_args(["--json", str(tmp_path / "out.json")]).json == tmp_path / "out.json"
    assert not any(tmp_path.iterdir())
    refused = {
        str(tmp_path / "gone" / "out.json"): "there is no folder",
        str(tmp_path): "is a folder, name a file in it",
        "/proc/none": "no file can be made in /proc: No such file or directory",
        "": "is empty, name a place",
    }
    for text, said in refused.items():
        with pytest.raises(UsageError, match=f"argument --json: .*{said}"):
            parser.parse_args(["--json", text])


def test_parts_divide_the_whole() -> None:
    settings = Namespace(batch=100, micro_batches=8, layers=8)
    check_divides(settings, "layers", "micro_batches")
    with pytest.raises(UsageError, match=r"^--batch 100: not divisible by --micro-batches 8$"):
        check_divides(settings, "batch", "micro_batches")


def test_some_steps_are_timed() -> None:
    check_steps(Namespace(steps=6), 5)
    with pytest.raises(UsageError, match=r"^--steps 5: at least 6, since the first 5 are not timed$"):
        check_steps(Namespace(steps=5), 5)
    with pytest.raises(UsageError, match=r"^--steps 1: at least 2, since the first is not timed$"):
        check_steps(Namespace(steps=1), 1)


def test_a_result_is_written_where_a_file_was_named(tmp_path: Path) -> None:
    write_json(Namespace(json=None), {"loss": 1})
    write_json(Namespace(json=tmp_path / "out.json"), {"loss": 1})
    assert (tmp_path / "out.json").read_text() == '{"loss": 1}\n'
    with pytest.raises(TfscaleError, match=r"^--json /dev/full: No space left on device$"):
        write_json(Namespace(json=Path("/dev/full")), {"loss": 1})
