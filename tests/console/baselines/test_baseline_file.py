"""Baselines in the state folder: what is kept, for how long, and what happens to a file that is no such file."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest
from tfscale.console.analysis.baselines.baseline import Baseline
from tfscale.console.analysis.baselines.run_facts import BaselineKey, RunFacts, Work
from tfscale.console.baselines.baseline_file import (
    MOST,
    MOST_BYTES,
    MOST_OF_ONE,
    NAME,
    BaselineFile,
    bounded,
    fastest_of_each,
    open_baselines,
)

KEY = BaselineKey("train.py, MultiWorkerMirroredStrategy, 400 bytes", 4, "16 cores, no GPU, 1 a host")
FACTS = RunFacts(Work(64, dtype_policy="mixed_bfloat16"), "2.17.0", "Keras 3.5", ("python", "train.py"), ("a", "b"))


def baseline(attempt: str = "digits 1.1 100", step: float = 0.05, begin: float = 100.0) -> Baseline:
    return Baseline(
        (0.1 * step, 0.1 * step, 0.1 * step, 0.6 * step, 0.1 * step), 0.06, 90, begin, 190.0, attempt, KEY, FACTS
    )


def kept(path: Path, *baselines: Baseline) -> BaselineFile:
    file = BaselineFile(path)
    for each in baselines:
        file.keep(each)
    file.close()
    return file


def test_what_one_console_keeps_the_next_one_recalls(tmp_path: Path) -> None:
    path = tmp_path / "tfscale" / NAME
    kept(path, baseline())
    assert BaselineFile(path).recall(KEY) == [baseline()]
    assert BaselineFile(path).recall(replace(KEY, size=2)) == [baseline()]
    assert BaselineFile(path).recall(replace(KEY, hardware="8 cores")) == []
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == [NAME]


def test_two_consoles_do_not_take_each_others_baselines_away(tmp_path: Path) -> None:
    path = tmp_path / NAME
    first, second = BaselineFile(path), BaselineFile(path)
    for file, attempt in ((first, "one"), (second, "two"), (first, "one")):
        file.keep(baseline(attempt))
        file.close()
    assert {each.attempt for each in BaselineFile(path).recall(KEY)} == {"one", "two"}


def test_of_one_attempt_the_fastest_is_kept(tmp_path: Path) -> None:
    path = tmp_path / NAME
    kept(path, baseline(step=0.05))
    kept(path, baseline(step=0.08))
    assert [each.step for each in BaselineFile(path).recall(KEY)] == [pytest.approx(0.05)]
    other_work = replace(baseline(step=0.08), facts=replace(FACTS, work=Work(128)))
    assert len(fastest_of_each([baseline(), other_work])) == 2


def test_the_newest_are_kept_and_the_file_is_bounded(tmp_path: Path) -> None:
    of_one = [baseline(str(number), begin=float(number)) for number in range(20)]
    assert [each.attempt for each in bounded(of_one)] == [str(number) for number in range(20 - MOST_OF_ONE, 20)]
    long = replace(FACTS, command=("x" * 6000,), hosts=tuple("h" * 60 + str(number) for number in range(64)))
    many = [
        replace(baseline(str(number), begin=float(number)), key=replace(KEY, program=f"{number}.py"), facts=long)
        for number in range(2 * MOST)
    ]
    assert len(bounded(many)) == MOST
    path = tmp_path / NAME
    kept(path, *many)
    assert MOST_BYTES / 2 < path.stat().st_size <= MOST_BYTES
    document = json.loads(path.read_text())
    assert document["baselines"][-1]["attempt"] == str(2 * MOST - 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"version": 2, "baselines": []}',
        '{"version": 1, "baselines": [{"usual": [1, 2]}]}',
        '{"version": 1, "baselines": [3]}',
        "\udcff",
    ],
)
def test_a_damaged_file_is_told_once_and_left_as_it_is(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / NAME
    content = text.encode(errors="surrogateescape")
    path.write_bytes(content)
    file = kept(path, baseline())
    assert file.recall(KEY) == []
    assert path.read_bytes() == content
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "is damaged" in record.getMessage() and str(path) in record.getMessage()


@pytest.mark.parametrize(
    "damage",
    [
        {"usual": [0.1, 0.1, 0.1, 0.1, float("nan")]},
        {"most": "long"},
        {"key": {"program": "x", "size": "four", "hardware": "y"}},
        {"key": None},
        {"facts": {"work": {"batch": "64"}}},
        {"facts": {"command": [1]}},
    ],
)
def test_a_value_that_cannot_be_is_damage(
    tmp_path: Path, damage: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / NAME
    kept(path, baseline())
    document = json.loads(path.read_text())
    document["baselines"][0] |= damage
    path.write_text(json.dumps(document))
    assert BaselineFile(path).recall(KEY) == []
    assert len(caplog.records) == 1


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tmp_path.chmod(0o500)
    file = kept(tmp_path / "tfscale" / NAME, baseline(), baseline("two"))
    assert file.recall(KEY) == []
    (record,) = caplog.records
    assert "cannot be written (Permission denied)" in record.getMessage()


def test_a_folder_that_cannot_be_made_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "tfscale").write_text("a file, no folder")
    file = kept(tmp_path / "tfscale" / NAME, baseline(), baseline("two"))
    assert file.recall(KEY) == []
    assert len(caplog.records) == 1


def test_without_a_folder_of_this_user_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_baselines({"XDG_STATE_HOME": str(tmp_path)}) is not None
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("platformdirs.user_state_dir", lambda _name: "~/.local/state/tfscale")
    assert open_baselines({}) is None
