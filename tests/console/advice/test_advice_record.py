"""The record of the advice: the file that the bench writes is what screens tell, and nothing is told without it."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from statistics import median

import fakes
import pages
import pytest
from rich.text import Text
from tfscale.console.advice import advice_record
from tfscale.console.advice.advice_record import Case, record_words
from tfscale.console.advice.present_load import load_of_snapshot
from tfscale.console.advice.remedy_trials import _BY_EFFORT
from tfscale.console.analysis.run.recommendations import recommend
from tfscale.console.tui.screens.advice_screen import _words
from tfscale.console.tui.widgets.appearance.theme import Appearance

FILE = json.loads(files("tfscale.console.advice").joinpath("advice_record.json").read_text())
PAGE = Path(__file__).parents[3] / "docs/reference/advice.md"


def test_an_error_is_the_median_distance_of_a_models_predictions_from_what_was_measured() -> None:
    cases = [Case("half the bytes", "a", 1.5, 1.5), Case("half the bytes", "b", 1.2, 1.0), Case("other", "a", 9, 1)]
    told = "such predictions were 10% off in the median, 2 cases"
    assert record_words("half the bytes", cases) == told
    assert record_words("half the compute", cases) is None


def test_the_file_has_cases_of_models_that_remedies_have_and_says_when_and_where() -> None:
    models = {case["model"] for case in FILE["cases"]}
    assert models and models <= set(_BY_EFFORT)
    assert "cores" in FILE["machine"] and all(case["when"] and case["load"] for case in FILE["cases"])
    for model in models:
        errors = [abs(each["predicted"] / each["measured"] - 1) for each in FILE["cases"] if each["model"] == model]
        assert record_words(model) == (
            f"such predictions were {median(errors):.0%} off in the median, {len(errors)} case{'s'[: len(errors) > 1]}"
        )


def test_the_screen_tells_the_record_of_each_remedy_that_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = pages.state_of("healthy").picture(fakes.NOW + pages.FAULTS["healthy"][0])
    load = load_of_snapshot(snapshot)
    cases = (Case("half the transfer", "a", 1.3, 1.25),)
    monkeypatch.setattr(advice_record, "_cases", lambda: cases)
    lines = Text("\n").join(_words(recommend(snapshot.findings, load), load, 300, Appearance())).plain.splitlines()
    (told,) = [line for line in lines if " off in " in line]
    assert "links twice as fast" in told and "half the transfer; 4% off in 1 case" in told
    assert f"  {advice_record.LEGEND}" in lines


def test_the_page_has_the_table_of_the_file() -> None:
    text = PAGE.read_text()
    for case in FILE["cases"]:
        gains = f"{case['predicted'] - 1:+.0%} | {case['measured'] - 1:+.0%}"
        assert f"| {case['remedy']} | {case['program']} | {gains} |" in text
