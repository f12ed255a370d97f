"""Wrong uses of `tfscale-train compare`: one line, exit status 2, before anything is started."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tfscale.trainer import cli

SCRIPT = ("--", "python", "train.py")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name a program|nothing to compare"),
        (("digits",), "there is nothing to compare: give --set"),
        (("--set", "batch=32", *SCRIPT, "{batch}"), "--set batch has one value; .* so write --set batch=BASE,32"),
        (("--set", "batch", *SCRIPT), "--set 'batch': write NAME=VALUE,VALUE"),
        (("--set", "batch=1,,2", *SCRIPT), "write NAME=VALUE,VALUE"),
        (("--set", "a=1,2", "--set", "a=3,4", *SCRIPT, "{a}"), "--set a: is given twice"),
        (("--set", "foo=1,2", *SCRIPT), r"--set foo: write \{foo\} where"),
        (("--set", "precision=float8,float32", *SCRIPT), "--set precision: 'float8' is none of"),
        (("--set", "workers=0,2", *SCRIPT), "--set workers: '0' is not a whole number above 0"),
        (("--set", "a=" + ",".join(map(str, range(65))), *SCRIPT, "{a}"), "these are 65 settings, and at most 64"),
        (("--set", "a=1,2", "--", "no-such-program", "{a}"), "no-such-program: there is no such command"),
        (("--set", "a=1,2", "--", "train.py", "{a}"), "train.py: there is no such command; write -- python train.py"),
        (("--set", "a=1,2", "--", "python", "trian.py", "{a}"), "trian.py: there is no such file in /"),
        (("--set", "a=1,2", "train.py"), "train.py defines no examples.* after --, too: -- python train.py"),
        (("--set", "a=1,2", "python", "train.py"), "python: is a command, which stands after --: -- python train.py"),
        (("digits", "--set", "a=1,2", *SCRIPT), "digits: give a program, or a command after --, not both"),
        (("--set", "a=1,2", "--what", *SCRIPT, "{a}"), "unrecognized arguments: --what"),
        (("digits", "--set", "nope=1,2"), "unrecognized arguments: --nope 1"),
        (("digits", "--set", "batch=x,2"), "argument --batch: invalid int value: 'x'"),
        (("digits", "--set", "with=wire=bfloat16;none"), "--with wire: not with one-device"),
        (("no-such", "--set", "batch=1,2"), "there is no program 'no-such'"),
        (("digits", "--set", "batch=1,2", "--rounds", "2"), "--rounds 2: at least 3"),
        (("digits", "--set", "batch=1,2", "--steps", "2"), "--steps 2: at least 20"),
        (("digits", "--set", "batch=1,2", "--budget", "long"), "'long' is no time: write for example 90s"),
        (("digits", "--set", "batch=1,2", "--margin", "x"), "'x' is not a share above 0: write for example 3%"),
    ],
)
def test_a_mistake_is_one_line(
    words: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    assert cli.main(["compare", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(said, line), line
