"""`report --csv` as a person runs it: measurements of another tool in, diagnoses out."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from command_words import run_command
from tfscale.console.report.csv_file import CsvError, read_csv

DATA = Path(__file__).parents[2] / "data" / "worker_steps.csv"
HEADER = "step,worker,input_s,compute_s,reduce_s,update_s"
Write = Callable[..., Path]
Report = Callable[..., list[dict[str, object]]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a file with these lines below the header."""

    def make(lines: Iterable[str], header: str = HEADER) -> Path:
        path = tmp_path / "steps.csv"
        path.write_text("\n".join([header, *lines]) + "\n")
        return path

    return make


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Report:
    """Return a function that runs the command on a file, requires exit status 0, and returns its JSON."""

    def report_of(path: Path) -> list[dict[str, object]]:
        assert run_command("report", "--csv", str(path), "--format", "json") == 0
        found: list[dict[str, object]] = json.loads(capsys.readouterr().out)["findings"]
        return found

    return report_of


def steps(count: int = 200, workers: int = 4, **slow: float) -> list[str]:
    """Return steps of equal workers with 2 % of noise; `input_s=0.05` slows worker 3 down by that from step 100 on."""
    random, lines = np.random.default_rng(7), []
    for step in range(count):
        parts = {"input_s": 0.01, "compute_s": 0.1, "update_s": 0.01}
        rows = [{name: value * random.normal(1, 0.02) for name, value in parts.items()} for _ in range(workers)]
        for name, extra in slow.items():
            rows[3][name] += extra if step >= 100 else 0.0
        latest = max(sum(row.values()) for row in rows)
        for worker, row in enumerate(rows):
            cells = [row["input_s"], row["compute_s"], 0.02 + latest - sum(row.values()), row["update_s"]]
            lines.append(f"{step},{worker}," + ",".join(f"{cell:.6f}" for cell in cells))
    return lines


def test_equal_workers_are_an_empty_list(write: Write, report: Report) -> None:
    assert report(write(steps())) == []


def test_a_slow_worker_has_all_that_a_diagnosis_has(write: Write, report: Report) -> None:
    (found,) = report(write(steps(input_s=0.05)))
    assert set(found) >= {
        "kind",
        "subject",
        "begin",
        "end",
        "severity",
        "evidence",
        "sentence",
        "lost_seconds",
        "remedy",
    }
    assert (found["kind"], found["subject"], found["severity"], found["end"]) == (
        "straggler",
        "worker:3",
        "serious",
        None,
    )
    evidence = found["evidence"]
    assert isinstance(evidence, dict)
    assert evidence["cause"] == "input"
    assert abs(evidence["begin_step"] - 100) <= 3
    assert found["begin"] == pytest.approx(14.0, abs=0.5)
    sentence = str(found["sentence"])
    assert sentence.startswith("worker:3 has been slow for ")
    assert f" (since step {evidence['begin_step']}): waiting for data takes " in sentence
    assert ". The cluster loses 2" in sentence and sentence.endswith("Likely cause: its data come late.")


def test_a_slowness_from_before_the_first_row_is_told_so_in_the_sentence_and_in_the_table(
    write: Write, report: Report, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(line for line in steps(compute_s=0.05) if int(line.partition(",")[0]) >= 110)
    (found,) = report(path)
    assert str(found["sentence"]).startswith("worker:3 has been slow for more than ")
    assert " (since before step 110): " in str(found["sentence"])
    assert isinstance(found["evidence"], dict) and found["evidence"]["began"] == "earlier"
    assert run_command("report", "--csv", str(path)) == 0
    assert re.search(r"  before \d\.\d s to the end  straggler\n", capsys.readouterr().out)


def test_nobody_is_named_on_published_traces_and_the_slow_one_is(write: Write, report: Report) -> None:
    def published(factor: float) -> list[str]:
        lines = []
        for row in csv.DictReader(DATA.read_text().splitlines()):
            slow = factor if row["trace"] == "ST" and row["worker"] == "1" else 1.0
            compute = float(row["compute_s"]) * slow
            lines.append(
                f"{row['step']},{row['worker']},0,{compute},{row['collective_s']},0,{row['trace']}{row['stage']}"
            )
        return lines

    header = HEADER + ",group"
    assert [document for document in report(write(published(1.0), header)) if document["kind"] == "straggler"] == []
    named = [document for document in report(write(published(1.3), header)) if document["kind"] == "straggler"]
    assert {document["subject"] for document in named} == {"worker:1"}
    assert {document["evidence"]["group"] for document in named} == {"ST0", "ST1", "ST2", "ST3"}  # type: ignore[index]


def test_columns_come_in_any_order_and_unknown_cells_name_nobody(write: Write, report: Report) -> None:
    lines = [f"x,{step},{worker},,0.1,0.01,0.02,0.001" for step in range(60) for worker in ("chief:0", "0", "1")]
    path = write(lines, "note,step,worker,input_s,compute_s,update_s,reduce_s,host_s")
    (group,) = read_csv(path)
    assert [str(worker) for worker in group.workers] == ["chief:0", "worker:0", "worker:1"]
    assert np.isnan(group.phases[2]).all()
    assert group.phases[1] == pytest.approx(0.001)
    assert report(path) == []


@pytest.mark.parametrize("lines", [steps(1), steps(3), ["0,0,0,1,0,0"]])
def test_too_little_says_nothing(write: Write, report: Report, lines: list[str]) -> None:
    assert report(write(lines)) == []


@pytest.mark.parametrize(
    ("header", "lines", "says"),
    [
        ("", [], "the first line must name the columns step, worker, input_s"),
        ("step,worker,compute_s", ["0,0,1"], "it has step, worker, compute_s"),
        (HEADER, [], "has no rows below its first line"),
        (HEADER + ",step", ["0,0,0,1,0,0,0"], "column step is there twice"),
        (HEADER, ["0,0,0,1,0"], "line 2: has 5 cells, the first line has 6"),
        (HEADER, ["0,0,0,1,0,0", "1,0,0,fast,0,0"], "line 3: compute_s is 'fast'"),
        (HEADER, ["0,0,0,-1,0,0"], "line 2: compute_s is -1"),
        (HEADER, ["0,0,0,inf,0,0"], "line 2: compute_s is inf"),
        (HEADER, ["0,gpu a,0,1,0,0"], "line 2: worker 'gpu a' is neither"),
        (HEADER, ["1.5,0,0,1,0,0"], "line 2: step '1.5' is not a whole number"),
        (HEADER, ["0,0,0,1,0,0", "0,0,0,1,0,0"], "step 0 of worker:0 is there twice"),
    ],
)
def test_a_bad_file_is_one_clear_line(write: Write, header: str, lines: list[str], says: str) -> None:
    path = write(lines, header)
    with pytest.raises(CsvError) as error:
        read_csv(path)
    assert says in str(error.value)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)
    assert error.value.exit_status == 2


def test_a_file_that_cannot_be_read_is_one_clear_line(tmp_path: Path) -> None:
    binary = tmp_path / "x.csv"
    binary.write_bytes(b"\xff\xfe\x00\x01")
    for path in (tmp_path / "absent.csv", tmp_path, binary):
        with pytest.raises(CsvError, match="cannot be read"):
            read_csv(path)
