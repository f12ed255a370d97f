"""Commands that try a remedy: of a program of `tfscale-train run` by its flags, of a script by flags that it needs."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tfscale.console.advice.remedy_trials import TriedProgram, effort, needs_flag, trial
from tfscale.console.analysis.run.load import Load
from tfscale.console.analysis.run.remedies import for_cluster
from tfscale.core.records.diagnosis import Remedy
from tfscale.core.settings.precedence import split_command
from tfscale.trainer import cli
from tfscale.trainer.compare import compare_command

LOAD = Load(step=0.1, transfer=0.05, input=0.02, compute=0.02, ranks=2)
KNOWN = TriedProgram(
    ("/venv/bin/tfscale-train", "run", "digits", "--strategy", "multi-worker", "--with", "packs=65536", "--json", "x"),
    64,
)
SCRIPT = TriedProgram(("python3", "train.py", "--batch", "64"), 64)


def remedy(model: str) -> Remedy:
    return next(each for each in for_cluster(LOAD) if each.model == model)


def test_a_flag_that_the_program_has_becomes_the_base() -> None:
    assert trial(remedy("half the bytes"), KNOWN, LOAD) == (
        "tfscale-train compare digits --strategy multi-worker --workers 2 "
        "--set 'with=packs=65536;packs=65536,wire=bfloat16'"
    )
    assert trial(remedy("a shorter ring, or none"), KNOWN, LOAD) == (
        "tfscale-train compare digits --strategy multi-worker --with packs=65536 --set workers=2,1"
    )


def test_a_script_gets_what_it_needs_a_flag_for_in_braces() -> None:
    doubled = remedy("compute and input double")
    assert trial(doubled, SCRIPT, LOAD) == (
        "tfscale-train compare --set batch=64,128 --set workers=2 -- python3 train.py --batch {batch}"
    )
    assert needs_flag(doubled, SCRIPT, LOAD) is None
    assert needs_flag(remedy("half the bytes"), SCRIPT, LOAD) == "--wire"


@pytest.mark.parametrize("program", [KNOWN, SCRIPT])
def test_compare_takes_every_command(program: TriedProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    commands = [command for each in for_cluster(LOAD) if (command := trial(each, program, LOAD))]
    assert len(commands) >= 5
    for command in commands:
        own, script = split_command(shlex.split(command)[1:])
        trials = compare_command.trials_of(*cli.parser().parse_known_args(own), script, cli.planned)
        assert len(trials) >= 2 and not any(each.refused for each in trials), command


def test_other_hardware_is_no_command_and_comes_last() -> None:
    ordered = sorted(for_cluster(LOAD), key=effort)
    assert ordered[0].model == "input beside training" and ordered[-1].model == "half the compute"
    assert trial(ordered[-1], KNOWN, LOAD) is None
    assert trial(remedy("half the bytes"), TriedProgram(()), LOAD) is None
