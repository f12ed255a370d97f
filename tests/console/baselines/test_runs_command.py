"""`tfscale-console runs` as one types it, on the file that consoles have kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_words import invocation
from tfscale.console.analysis.baselines.baseline import Baseline
from tfscale.console.analysis.baselines.run_facts import BaselineKey, RunFacts, Work
from tfscale.console.baselines.baseline_file import NAME, BaselineFile
from tfscale.core.errors import UsageError

KEY = BaselineKey("train.py, MirroredStrategy, 400 bytes", 2, "2 cores, no GPU, 1 a host")
FACTS = RunFacts(Work(64), "2.17.0", "Keras 3.5", ("python", "train.py"), ("a",), files=("train.py 111111111111",))
CHANGED = replace(FACTS, work=Work(128), files=("train.py 222222222222",))


def run(begin: float, step: float, facts: RunFacts = FACTS, key: BaselineKey = KEY) -> Baseline:
    times = (0.2 * step, 0.2 * step, 0.2 * step, 0.2 * step, 0.2 * step)
    return Baseline(times, 1.25 * step, 30, begin, begin + 60, f"digits 1.1 {begin:.0f}", key, facts)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def keep(state: Path, *runs: Baseline) -> None:
    file = BaselineFile(state / "tfscale" / NAME)
    for each in runs:
        file.keep(each)
    file.close()


def list_runs(state: Path, *words: str) -> int:
    typed = invocation("runs", *words, XDG_STATE_HOME=str(state))
    return typed.command.run(typed)


def test_the_newest_program_is_last_and_each_change_is_told(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = run(50, 0.02, replace(FACTS, work=Work()), replace(KEY, program="other.py, no strategy, in /home"))
    keep(state, run(200, 0.04, CHANGED), run(100, 0.02), other)
    assert list_runs(state) == 0
    before, after = capsys.readouterr().out.split("\n\n")
    assert before.splitlines()[0].startswith("other.py, no strategy") and before.split()[-1] == "-"
    name, _, first, second = after.splitlines()
    assert name == "train.py, MirroredStrategy, 400 bytes; 2 replicas; 2 cores, no GPU, 1 a host"
    assert first.split()[0] == "1" and first.endswith("20.0 ms       3,200")
    assert second.endswith("3,200  batch 128, before 64; code train.py 222222222222, before train.py 111111111111")


def test_a_plot_has_the_runs_of_the_newest_program(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(state, run(100, 0.02), run(200, 0.01, CHANGED))
    plot = state.parent / "runs.svg"
    assert list_runs(state, "train.py", "--plot", str(plot), "--plot-theme", "dark") == 0
    drawn = plot.read_text()
    assert "throughput (examples/s)" in drawn and "2: batch 128, before 64" in drawn and "#14181d" in drawn
    assert list_runs(state, "--plot", "-") == 0
    told = capsys.readouterr().out
    assert "throughput (examples/s)" in told and max(map(len, told.partition("Earlier")[2].splitlines())) <= 80


def test_programs_read_the_same_numbers(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(state, run(100, 0.02))
    assert list_runs(state, "--json") == 0
    (known,) = json.loads(capsys.readouterr().out)
    assert known["replicas"] == 2 and known["runs"][0]["step"] == pytest.approx(0.02)
    assert known["runs"][0]["facts"]["files"] == ["train.py 111111111111"]


def test_where_nothing_is_known_that_is_told(state: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert list_runs(state) == 5
    assert "no run is known yet" in caplog.text
    keep(state, run(100, 0.02))
    with pytest.raises(UsageError, match=r"^runs: none is known of fit\.py; the newest is of train\.py, Mirrored"):
        list_runs(state, "fit.py")
    with pytest.raises(UsageError, match=r"^--plot: 'x.gif': a plot is a file.png"):
        list_runs(state, "--plot", "x.gif")


@pytest.mark.parametrize("damaged", ["", "[]", '{"version": 99, "baselines": []}', '{"version": 1, "baselines": [{}]}'])
def test_a_damaged_file_is_one_line(state: Path, damaged: str) -> None:
    (state / "tfscale").mkdir(parents=True)
    (state / "tfscale" / NAME).write_text(damaged)
    with pytest.raises(UsageError, match=r"baselines\.json: is damaged \(.*\); remove it to begin anew$"):
        list_runs(state)
