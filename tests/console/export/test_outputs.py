"""Lines and tables, rotated."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import fakes
import pytest
from tfscale.console.engine.events import (
    FrameArrived,
)
from tfscale.console.export import rows
from tfscale.console.export.outputs import Csv, JsonLines, Parquet, Rotated

SPEC = fakes.spec(2)
FIRST, SECOND = fakes.worker(0), fakes.worker(1)
ARRIVED = FrameArrived(fakes.NOW, FIRST, fakes.frame(FIRST))


def test_csv_has_its_columns_first_and_nothing_for_the_unknown() -> None:
    file = io.StringIO()
    table = Csv(file, rows.FRAME_COLUMNS)
    table.write(rows.frame_row(ARRIVED))
    assert table.size() == len(file.getvalue())
    (row,) = csv.DictReader(io.StringIO(file.getvalue()))
    assert (row["task"], row["host_throttled"], row["status_attempt"]) == ("worker:0", "", "1")


@pytest.mark.parametrize("text", ['=HYPERLINK("http://x")', "+1", "-1", "@SUM(A1)", "\t=1"])
def test_a_text_in_csv_is_no_formula(text: str) -> None:
    file = io.StringIO()
    Csv(file, rows.FRAME_COLUMNS).write({**rows.frame_row(ARRIVED), "status_reason": text, "time": -1.5})
    (row,) = csv.DictReader(io.StringIO(file.getvalue()))
    assert (row["status_reason"], row["time"]) == (f"'{text}", "-1.5")


def test_parquet_has_types_and_nulls(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "steps.parquet"
    table = Parquet(path.open("wb"), rows.STEP_COLUMNS)
    for row in rows.step_rows(ARRIVED):
        table.write({**row, "input": None})
    table.close()
    read = parquet.read_table(path)
    assert read.num_rows == 3 and str(read.schema.field("end").type) == "double"
    assert read.column("sequence").to_pylist() == [3, 4, 5] and read.column("input").null_count == 3


def test_rotation_keeps_so_many_and_each_begins_with_its_header(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    output = Rotated(path, 200, 2, lambda: JsonLines(path.open("w"), {"type": "header"}))
    for number in range(10):
        output.write({"number": number, "fill": "x" * 100})
        output.flush()
    output.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.jsonl", "run.jsonl.1", "run.jsonl.2"]
    for file in tmp_path.iterdir():
        first, *_ = file.read_text().splitlines()
        assert json.loads(first) == {"type": "header"}
    last = json.loads((tmp_path / "run.jsonl.1").read_text().splitlines()[-1])
    assert last["number"] == 9
