"""Rounds of a comparison, with runs whose times are drawn."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import numpy as np
import pytest
from tfscale.console.gate.gate import Outcome, gate
from tfscale.console.gate.gated_runs import read_set
from tfscale.core.cluster.gpu_price import GpuPrice
from tfscale.core.comparison.program_files import named_code
from tfscale.core.comparison.rounds import Rounds
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.plots.terminal_plot import terminal_plot
from tfscale.core.records.frame import Frame
from tfscale.core.records.probe_status import ProbeState, ProbeStatus
from tfscale.core.records.task_status import TaskState, TaskStatus
from tfscale.core.wire.json_records import frame_to_json
from tfscale.trainer import cli
from tfscale.trainer.compare import compare_command, comparison
from tfscale.trainer.compare.comparison import Comparison
from tfscale.trainer.compare.intervals_chart import intervals_chart
from tfscale.trainer.compare.kept_runs import KeptRuns, kept_runs
from tfscale.trainer.compare.measured_run import MeasuredRun, StepFiles, loss_at
from tfscale.trainer.compare.result_file import machine_facts
from tfscale.trainer.compare.run_trial import Limits, OutOfTime, check_disk
from tfscale.trainer.compare.table import as_csv, as_json, loss_lines, table
from tfscale.trainer.compare.trials import Trial

STEPS = {"base": 0.010, "same": 0.010, "slow": 0.012, "fast": 0.005, "wrong": 0.004}
TRIALS = [Trial(name, {}) for name in STEPS]
LIMITS = Limits(None, float("inf"), 1.0)


class Runner:
    """Runs of known times with a noise of 1 %."""

    def __init__(self, most: float = float("inf")) -> None:
        self.made: list[tuple[int, str]] = []
        self.most, self.noise, self.loss_noise, self.fails = most, 0.01, 0.0, ""
        self.memory: dict[str, int | None] = {}
        self._generator = np.random.default_rng(0)

    def __call__(self, trial: Trial, number: int, _: Limits) -> MeasuredRun:
        if len(self.made) >= self.most:
            raise OutOfTime
        self.made.append((number, trial.name))
        if trial.name == self.fails:
            return MeasuredRun(trial.name, number, reason="exit status 1")
        step = STEPS[trial.name] * float(np.exp(self._generator.normal(0, self.noise)))
        loss = [(100, 0.5), (200, 0.8 if trial.name == "wrong" else 0.4 + self.loss_noise * len(self.made))]
        return MeasuredRun(
            trial.name,
            number,
            steps=200,
            step=step,
            workers={"worker:0": step},
            phases={"compute": step / 2},
            quick=step,
            examples=32,
            wall=1.0,
            memory=728_000_000,
            device_memory=self.memory.get(trial.name),
            losses=loss,
            moments=(1.0, 2.0),
        )


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def compared(runner: Runner, monkeypatch: pytest.MonkeyPatch, trials: list[Trial] = TRIALS) -> Comparison:
    monkeypatch.setattr(comparison, "run_trial", runner)
    with kept_runs(["here"], []) as kept:
        found = Comparison(trials, Rounds(), kept)
        found.run(LIMITS, lambda _: None)
    return found


@pytest.mark.usefixtures("state")
def test_each_setting_has_its_verdict_and_goes_on_only_while_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Runner()
    rows = compared(runner, monkeypatch).rows()
    verdicts = {row.trial.name: row.judgement.verdict for row in rows if row.judgement}
    assert verdicts == {"same": "within", "slow": "slower", "fast": "faster", "wrong": "faster"}
    rounds = {name: [number for number, each in runner.made if each == name] for name in STEPS}
    assert rounds["fast"] == [0, 1, 2] and len(rounds["base"]) == max(map(len, rounds.values()))
    first, second = ([name for number, name in runner.made if number == which] for which in (0, 1))
    assert first == list(STEPS) and second == first[::-1]


@pytest.mark.usefixtures("state")
def test_a_faster_setting_that_trains_something_else_does_not_win(monkeypatch: pytest.MonkeyPatch) -> None:
    told = table(compared(Runner(), monkeypatch), 0.45)
    assert "fastest: fast, 2.0" in told or "fastest: fast, 1.9" in told
    assert "! its loss after 6,400 examples differs by more than 2% from that of the base" in told
    assert [line for line in told.splitlines() if line.startswith("wrong") and line.endswith("0.8000 !")]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("others", "told"),
    [
        (["slow"], "fastest: the base (base)"),
        (["same"], "fastest: none, all are as fast as the base (base)"),
        (["same", "slow"], "fastest: none is surely faster than the base (base)"),
        (["slow", "fast"], "fastest: fast, "),
    ],
)
def test_the_fastest_is_named(others: list[str], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trials = [trial for trial in TRIALS if trial.name in ("base", *others)]
    assert told in table(compared(Runner(), monkeypatch, trials), None)


@pytest.mark.usefixtures("state")
def test_a_loss_that_differs_as_runs_of_one_setting_do_is_not_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Runner()
    runner.loss_noise = 0.009
    marked = {row.trial.name: row.is_other_training for row in compared(runner, monkeypatch).rows()}
    assert not marked["fast"] and not marked["slow"]


@pytest.mark.usefixtures("state")
def test_a_comparison_whose_time_is_below_a_round_goes_on_with_the_next_run(monkeypatch: pytest.MonkeyPatch) -> None:
    places = [(place, list(STEPS)[:: -1 if place % 2 else 1]) for place in range(3)]
    for made in range(0, 14, 2):
        runner = Runner(most=2)
        cut = compared(runner, monkeypatch)
        assert cut.is_cut and runner.made == [(place, name) for place, names in places for name in names][made:][:2]
        assert ("undecided after 1 run, which says nothing about the next" in table(cut, None)) == (made < 8)
    assert not compared(Runner(), monkeypatch).is_cut


@pytest.mark.usefixtures("state")
def test_an_undecided_setting_says_what_would_decide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STEPS, "same", 0.0102)
    runner = Runner()
    runner.noise = 0.04
    monkeypatch.setattr(comparison, "run_trial", runner)
    with kept_runs(["here"], []) as kept:
        found = Comparison(TRIALS[:2], Rounds(3), kept)
        found.run(LIMITS, lambda _: None)
    (line,) = [line for line in table(found, None).splitlines() if line.startswith("same: ")]
    needed = re.search(r"--rounds (\d+) \(about (\d+) s\) or a quieter machine would decide on ", line)
    assert needed and int(needed[1]) > 6 and int(needed[2]) == 2 * int(needed[1]), line
    monkeypatch.setattr(Rounds, "needed", lambda *_: None)
    assert "longer runs (--steps) or a quieter machine would decide" in table(found, None)


@pytest.mark.usefixtures("state")
def test_the_time_for_all_runs_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Runner()
    monkeypatch.setattr(comparison, "run_trial", runner)
    with kept_runs(["here"], []) as kept:
        found = Comparison(TRIALS, Rounds(), kept)
        # Runs take a second each by their records: after the first one no other fits.
        found.run(Limits(None, time.monotonic() + 0.9, 1.0), lambda _: None)
    assert len(runner.made) == 1 and found.is_cut


def test_a_folder_in_which_no_runs_can_be_kept_is_told_with_what_names_another(state: Path) -> None:
    (state / "tfscale").touch()
    with pytest.raises(TfscaleError, match=r"cannot be kept there .* XDG_STATE_HOME"), kept_runs(["here"], []):
        pass


@pytest.mark.usefixtures("state")
def test_one_comparison_does_not_run_twice_at_once() -> None:
    with kept_runs(["here"], []), pytest.raises(UsageError, match="runs already"), kept_runs(["here"], []):
        pass
    with kept_runs(["here"], []), kept_runs(["elsewhere"], []):
        pass


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="set HOME or XDG_STATE_HOME"), kept_runs(["here"], []):
        pass


def test_a_damaged_line_is_cut_off(state: Path) -> None:
    with kept_runs(["here"], []) as kept:
        kept.add(Runner()(TRIALS[0], 0, LIMITS))
        path = kept.path
    path.write_text(path.read_text() + '{"setting": "ba')
    with kept_runs(["here"], []) as kept:
        assert len(kept.runs) == 1
        kept.add(Runner()(TRIALS[1], 0, LIMITS))
    with kept_runs(["here"], []) as kept:
        assert [run.setting for run in kept.runs] == ["base", "same"]
    assert path.is_relative_to(state)


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    file = Path("/dev/full").open("w")  # noqa: SIM115 - its end fails, too
    with pytest.raises(TfscaleError, match="No space left on device; make room there"):
        KeptRuns(tmp_path / "empty", file).add(Runner()(TRIALS[0], 0, LIMITS))
    with pytest.raises(OSError, match="No space"):
        file.close()


def test_a_run_that_fills_its_disk_is_told_and_not_kept(tmp_path: Path) -> None:
    check_disk(tmp_path)
    (tmp_path / "room").unlink()
    (tmp_path / "room").symlink_to("/dev/full")
    with pytest.raises(TfscaleError, match="No space left on device; make room there, and the same command goes on"):
        check_disk(tmp_path)


def test_a_loss_is_read_between_near_ones_alone() -> None:
    run = MeasuredRun("x", 0, examples=1, losses=[(100, 0.6), (200, 0.5), (210, 0.4)])
    assert loss_at(run, 100) == 0.6 and loss_at(run, 205) == pytest.approx(0.45)
    assert loss_at(run, 98) == 0.6 and loss_at(run, 196) == 0.5
    assert loss_at(run, 95) is None and loss_at(run, 150) is None and loss_at(run, 211) is None


@pytest.mark.usefixtures("state")
def test_csv_has_a_line_for_each_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = as_csv(compared(Runner(), monkeypatch), None).splitlines()
    assert len(lines) == 1 + len(STEPS) and lines[3].startswith("slow,slower,0.")


@pytest.mark.usefixtures("state")
def test_the_gate_takes_settings_of_a_comparison(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = tmp_path / "train.py"
    made = {}
    for name in ("before", "after"):
        code.write_text(name)
        trials = [Trial(each, {}, command=["python", "train.py"], files=named_code([str(code)])) for each in STEPS]
        made[name] = tmp_path / f"{name}.json"
        made[name].write_text(as_json(compared(Runner(), monkeypatch, trials), None, machine_facts()))
    before, slow = read_set(str(made["before"])), read_set(f"{made['before']}:slow")
    assert gate(before, before, 0.03, ()).outcome is Outcome.PASSED
    assert gate(before, slow, 0.03, ()).outcome is Outcome.FAILED
    with pytest.raises(UsageError, match=r"^not comparable: program differs: files is train\.py \w{12} in \S+before"):
        gate(before, read_set(str(made["after"])), 0.03, ())
    with pytest.raises(UsageError, match="has no setting quick; it has base, same, slow, fast, wrong"):
        read_set(f"{made['before']}:quick")


@pytest.mark.usefixtures("state")
def test_the_chart_has_an_interval_for_each_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    chart = intervals_chart(compared(Runner(), monkeypatch))
    rows = {row.name: row for row in chart.rows}
    assert list(rows) == list(STEPS) and rows["base"].words == "base" and rows["wrong"].words == "faster !"
    assert rows["slow"].low is not None and 0 < rows["slow"].low < 20 < (rows["slow"].high or 0)
    assert "Time of an example against base" in terminal_plot(chart)


@pytest.mark.usefixtures("state")
def test_the_cheapest_to_a_loss_is_named_with_its_money(monkeypatch: pytest.MonkeyPatch) -> None:
    found = compared(Runner(), monkeypatch)
    told = loss_lines(found, 0.4, GpuPrice(3600.0, "EUR"))
    cost = "2.0 s with start and compilation, 0.00056 device-h, 2.00 EUR"
    assert told == [f"to the loss 0.4: first base, {cost}; means of runs"]
    assert loss_lines(found, 0.1, None) == ["to the loss 0.1: no setting came so far in all its runs"]


def test_the_price_is_that_of_the_cluster_file_unless_one_is_given(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a=1", "a=2"):
        monkeypatch.setitem(STEPS, name, 0.010)
    monkeypatch.chdir(state)
    monkeypatch.setattr(comparison, "run_trial", Runner())
    monkeypatch.setattr(compare_command, "interrupt_on_signals", lambda: None)
    Path("train.py").touch()
    words = ["--set", "a=1,2", "--rounds", "3", "--loss", "0.4", "--json", "out.json"]
    script = ["--", "python", "train.py", "{a}"]
    for cost, flags, told in (("1800", [], "1.00 EUR"), ("1800", ["--cost-per-hour", "3600USD"], "2.00 USD")):
        Path("cluster.toml").write_text(f'cluster = "alone"\n[cost]\nper_gpu_hour = {cost}\ncurrency = "EUR"\n')
        cli.main(["compare", *words, *flags, *script])
        assert f"0.00056 device-h, {told}" in capsys.readouterr().out
        assert json.loads(Path("out.json").read_text())["cost"]["currency"] == told[-3:]
    Path("cluster.toml").write_text('cluster = "alone"\n[cost]\nper_gpu_hour = "much"\n')
    assert cli.main(["compare", *words, *script]) == 2
    assert "[cost] per_gpu_hour: 'much' is not a price" in capsys.readouterr().err


@pytest.mark.usefixtures("state")
def test_memory_is_that_of_the_device_where_tensorflow_counts_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for pid, peaks in {1: (2_000_000_000, 31_300_000_000), 2: (1_000_000_000,), 3: ()}.items():
        probe = ProbeStatus(ProbeState.MEASURING, memory_peaks=peaks)
        frame = Frame(1, 1.0, TaskStatus(TaskState.RUNNING), probe)
        (tmp_path / f"{pid}.jsonl").write_text(json.dumps(frame_to_json("worker:0", frame)) + "\n")
    files = StepFiles(tmp_path)
    files.follow()
    runner = Runner()
    runner.memory = {"base": files.device_memory}
    lines = table(compared(runner, monkeypatch, TRIALS[:2]), None).splitlines()
    assert "31.3 GB GPU" in lines[1] and "728 MB RSS" in lines[2]


@pytest.mark.usefixtures("state")
def test_a_comparison_that_judges_nothing_yet_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    told = table(compared(Runner(most=1), monkeypatch), None)
    assert told.endswith("nothing is judged: no setting has run beside the base often enough")


@pytest.mark.usefixtures("state")
def test_a_base_that_fails_is_named_last(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Runner()
    runner.fails = "base"
    told = table(compared(runner, monkeypatch), None)
    assert told.endswith("base: exit status 1\nnothing is compared: the base did not run")
