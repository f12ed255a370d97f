"""Wrong uses of `tfscale-train batch`: one line, exit status 2, before anything is started."""

from __future__ import annotations

import re

import pytest
from tfscale.trainer import cli
from tfscale.trainer.batch.batch_command import trial_of

SCRIPT = ("--", "python", "train.py", "{batch}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), r"write \{batch\} where the command has its batch"),
        (("--", "python", "train.py"), r"write \{batch\} where the command has its batch"),
        (("--", "no-such-program", "{batch}"), "no-such-program: there is no such command"),
        (("--max", "16", *SCRIPT), "--max 16: is below the first size, --start 32"),
        (("--start", "0", *SCRIPT), "'0' is not a whole number above 0"),
        (("--steps", "5", *SCRIPT), "--steps 5: at least 20"),
        (("--rate", "fast", *SCRIPT), "'fast' is no learning rate: write a number above 0"),
        (("--rate", "0.1", *SCRIPT), r"--rate R and \{rate\} in the command go together"),
        ((*SCRIPT, "{rate}"), r"--rate R and \{rate\} in the command go together"),
        (("--what", *SCRIPT), "unrecognized arguments: --what"),
        (("digits", *SCRIPT), "digits: give a program, or a command after --, not both"),
        (("digits", "--nope"), "unrecognized arguments: --nope"),
        (("digits", "--rate", "0"), "'0' is no learning rate: write a number above 0"),
        (("digits", "--strategy", "nope"), "there is no strategy 'nope'"),
        (("no-such",), "there is no program 'no-such'"),
    ],
)
def test_a_mistake_is_one_line(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["batch", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(said, line), line


def test_the_rate_of_a_program_grows_with_the_size() -> None:
    flags = cli.parser().parse_args(["batch", "digits", "--start", "64", "--rate", "0.01", "--servers", "2"])
    made = trial_of(flags, ["--strategy", "parameter-server"], [], cli.planned)(128)
    planned = cli.planned([*made.command[1:-1], "result.json"])
    assert (planned.batch, planned.rate) == (128, 0.02)
    assert made.tasks == planned.local_tasks and made.tasks["ps"] == 2
