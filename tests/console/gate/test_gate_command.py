"""The gate as one types it, on recordings of simulated clusters and on results of real trainings."""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from command_words import run_command
from simulated_runs import record, simulated
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.core.errors import TfscaleError, UsageError

SLOW = ("worker:1=1.6x",)
SECONDS = (20, 23, 26)


def runs(folder: Path, *faults: str, workers: int = 2, lengths: tuple[int, ...] = SECONDS) -> str:
    """Record runs of these lengths in a folder of their own."""
    folder.mkdir()
    for length in lengths:
        record(folder / f"{length}.tfrec", simulated(length, workers, *faults), simulated_spec(workers))
    return str(folder)


def run_compare(*words: str) -> int:
    return run_command("compare", *words)


@pytest.fixture
def base(tmp_path: Path) -> str:
    return runs(tmp_path / "base")


def test_equal_runs_pass(base: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = runs(tmp_path / "new", lengths=(21, 24, 27))
    assert run_compare(base, new, "--max-regression", "10%") == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "passed: 3 runs against 3 runs, at most 10.0% slower is allowed"
    assert [line.split()[:2] for line in told[2:4]] == [["worker:0", "step"], ["worker:0", "update"]]


def test_a_slower_set_fails_and_ci_sees_where(base: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new, out = runs(tmp_path / "new", *SLOW), tmp_path / "out.xml"
    assert run_compare(base, new, "--format", "junit", "--out", str(out)) == 3
    assert capsys.readouterr().out.startswith("failed: ")
    suite = ElementTree.parse(out).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "2", "0")
    assert [case.get("name") for case in suite] == ["worker:0", "worker:1"]
    assert "is allowed" in str(suite[0][0].get("message"))


def test_a_page_has_the_table(base: str, tmp_path: Path) -> None:
    page = tmp_path / "speed.html"
    assert run_compare(base, runs(tmp_path / "new", *SLOW), "--format", "html", "--out", str(page)) == 3
    assert '<h1 class="failed">failed</h1>' in page.read_text() and "<td>worker:1<td>compute<td>" in page.read_text()


def test_json_has_each_phase_of_each_worker(base: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_compare(base, runs(tmp_path / "new", *SLOW), "--format", "json") == 3
    document = json.loads(capsys.readouterr().out)
    changed = {(row["worker"], row["part"]): row["judgement"]["change"] for row in document["rows"]}
    assert document["outcome"] == "failed" and changed["worker:1", "compute"] > 0.4 > changed["worker:0", "compute"]
    assert changed["worker:0", "reduce"] > 0.4, "it waits for the slow one"


def test_a_single_run_decides_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = (runs(tmp_path / name, *faults, lengths=(20,)) for name, faults in (("one", ()), ("other", SLOW)))
    assert run_compare(f"{one}/20.tfrec", f"{other}/20.tfrec") == 5
    told = capsys.readouterr().out
    assert told.startswith("undecided: 1 run against 1 run") and "a folder of three or more runs for each side" in told


def test_another_contract_is_refused_and_told(base: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = runs(tmp_path / "new", workers=3)
    with pytest.raises(UsageError, match=r"^not comparable: .*size differs: tasks is 2 in \S+ and 3 in") as refused:
        run_compare(base, new)
    line = str(refused.value)
    across = line.partition("--across ")[2].split()[0]
    assert run_compare(base, new, "--across", across) in (0, 3, 5)
    assert "size differs: tasks is 2" in capsys.readouterr().out


def result(path: Path, rate: float, **changed: object) -> None:
    """Write a result as `tfscale-train run --json` does; tests/e2e/comparing compares one of its own."""
    made = {"program": "digits", "strategy": "one-device", "loop": "fit", "techniques": {}, "input": {}, "weights": 9}
    rest = {"replicas": 1, "global_batch": 64, "tasks": {"worker": 1}, "tensorflow": "2.21.0", "keras": "keras 3.15.1"}
    path.write_text(json.dumps(made | rest | {"steps_per_second": rate, "steps": 200} | changed))


def test_results_of_trainings_are_compared(tmp_path: Path) -> None:
    for name, rates in {"base": (100, 101, 99), "slow": (80, 81, 79), "same": (100.5, 99.5, 100)}.items():
        (tmp_path / name).mkdir()
        for number, rate in enumerate(rates):
            result(tmp_path / name / f"{number}.json", rate)
    assert run_compare(f"{tmp_path}/base", f"{tmp_path}/same", "--max-regression", "5%") == 0
    assert run_compare(f"{tmp_path}/base", f"{tmp_path}/slow") == 3
    result(tmp_path / "slow" / "3.json", 80, global_batch=128)
    with pytest.raises(UsageError, match="batch differs: examples a step is 64"):
        run_compare(f"{tmp_path}/base", f"{tmp_path}/slow")
    for name in ("old", "new"):
        result(tmp_path / f"{name}.json", 80, files=[f"own.py {name}"])
    with pytest.raises(UsageError, match=r"program differs: files is own\.py old in \S+ and own\.py new in"):
        run_compare(f"{tmp_path}/old.json", f"{tmp_path}/new.json")


@pytest.mark.parametrize("rate", [-1, 0, math.inf, math.nan, 10**400, "fast", [], {}, 1e300])
def test_a_result_without_a_rate_is_one_line(rate: Any, tmp_path: Path) -> None:
    result(tmp_path / "x.json", rate)
    with pytest.raises(UsageError, match=r"x\.json: (its step of all has no time|is no result that)"):
        run_compare(f"{tmp_path}/x.json", f"{tmp_path}/x.json")


@pytest.mark.parametrize("wrong", [{"steps": "200"}, {"tasks": {"worker": "1"}}, {"tasks": []}])
def test_a_result_with_other_figures_is_one_line(wrong: dict[str, Any], tmp_path: Path) -> None:
    result(tmp_path / "x.json", 80, **wrong)
    with pytest.raises(UsageError, match=r"x\.json: is no result that"):
        run_compare(f"{tmp_path}/x.json", f"{tmp_path}/x.json")


@pytest.mark.parametrize("time", [-1, 0, math.inf, math.nan, 10**400, "1"])
def test_a_comparison_without_times_is_one_line(time: Any, tmp_path: Path) -> None:
    run = {"reason": "", "facts": {"TensorFlow": []}, "workers": {"worker:0": time}, "phases": {}}
    setting = {"setting": "base", "command": ["x"], "files": [], "values": {}, "tasks": 1, "runs": [run]}
    (tmp_path / "x.json").write_text(json.dumps({"settings": [setting], "tfscale": "1", "cores": 2}))
    with pytest.raises(UsageError, match=r"x\.json: its step of worker:0 has no time above 0"):
        run_compare(f"{tmp_path}/x.json", f"{tmp_path}/x.json")


def lines_of(path: Path, **changed: float) -> Path:
    """Export a recording as JSON lines, with all values of these columns of its steps changed."""
    out = path.with_suffix(".jsonl")
    assert run_command("export", str(path), "--out", str(out)) == 0
    documents = [json.loads(line) for line in out.read_text().splitlines()]
    for batch in (batch for each in documents for batch in each.get("steps", ()) if each["type"] == "frame"):
        batch |= {name: [value] * len(batch[name]) for name, value in changed.items()}
    out.write_text("".join(json.dumps(each) + "\n" for each in documents))
    return out


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [("end", 0, "step"), ("end", -5, "step"), ("compute", -1, "compute")],
)
def test_times_that_no_step_has_are_one_line(base: str, column: str, value: float, said: str) -> None:
    lines = lines_of(Path(base, "20.tfrec"), **{column: value})
    with pytest.raises(UsageError, match=rf"20\.jsonl: its {said} of worker:[01] has no time above 0"):
        run_compare(str(lines), str(lines))


def test_a_phase_that_takes_no_time_is_left_out(base: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(Path(base, "20.tfrec"), compute=0)
    assert run_compare(str(lines), str(lines)) == 5
    told = capsys.readouterr().out
    assert "worker:0  step" in told and "compute" not in told


def test_two_runs_that_differ_beyond_all_numbers_are_undecided(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("base", "new"):
        (tmp_path / name).mkdir()
        for rate in (1e7, 1e-10):
            result(tmp_path / name / f"{rate}.json", rate, files=[name])
    wide = (f"{tmp_path}/base", f"{tmp_path}/new", "--across", "program")
    assert run_compare(*wide) == 5
    assert "passed" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere.tfrec", "nowhere.tfrec"), "nowhere.tfrec: "),
        ((".", "."), "has no run in it: recordings end in .tfrec or .jsonl"),
        (("x.json", "x.json"), "x.json: is no result that tfscale-train run --json has written"),
        (("x.json", "x.json", "--max-regression", "x"), "--max-regression: 'x' is not a share above 0"),
        (("x.json", "x.json", "--max-regression", "3"), "--max-regression: '3' would be 300%: write 3%, or a fraction"),
        (("x.json", "x.json", "--across", "weather"), "--across weather: use one of program, batch, size"),
        (("x.json",), "the following arguments are required: NEW"),
    ],
)
def test_a_mistake_is_one_line(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if "x.json" in words:
        Path("x.json").write_text("[]")
    with pytest.raises(TfscaleError, match=re.escape(said)) as refused:
        run_compare(*words)
    assert refused.value.exit_status in (1, 2) and "\n" not in str(refused.value)
