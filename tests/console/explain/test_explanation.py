"""Explanation of a cluster for a language model."""

from __future__ import annotations

import json

import pytest
from command_words import run_command
from simulated_runs import simulated
from tfscale.console.engine.events import SecondPassed
from tfscale.console.engine.state_factory import states
from tfscale.console.explain.explanation import explanation
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.core.errors import UsageError
from tfscale.core.wire.json_records import Json


def explained(seconds: int, workers: int, *faults: str) -> Json:
    """Return what a console explains after a simulated run, as a reader gets it."""
    state = states(simulated_spec(workers))()
    for event in simulated(seconds, workers, *faults):
        state.fold(event)
        if isinstance(event, SecondPassed):
            snapshot = state.snapshot(event.at)
    return json.loads(json.dumps(explanation(snapshot), allow_nan=False))  # type: ignore[no-any-return]


def test_a_finding_has_its_sentence_evidence_cost_and_first_step() -> None:
    told = explained(40, 6, "worker:1=1.6x@5s")
    (finding,) = told["findings"]
    assert finding["sentence"] == told["headline"] and finding["subjects"] == ["worker:1"]
    assert finding["first_step"].startswith("check its GPU") and 0.2 < finding["share_of_time_lost"] < 0.35
    assert finding["evidence"]["phase"] == "compute" and finding["evidence"]["ratio"].endswith("x")
    (unusual,) = told["tasks"]["unusual"]
    assert unusual["task"] == "worker:1" and unusual["seconds_of_a_step"]["compute"] > 0.1
    assert told["tasks"]["by_state"] == {"running": "worker:0, 1, 2, 3, 4 and 5"}
    assert told["healthy"] is False


def test_a_restart_is_told_as_tried_with_what_it_cost() -> None:
    (restart,) = explained(100, 3, "worker:1=kill@30s-36s")["tried"]
    assert restart["text"].startswith("restart of 3 workers cost") and restart["measured"]["repeated"]


def test_a_thousand_tasks_fit_a_short_context() -> None:
    told = explained(16, 1_000, "worker:7=kill@5s")
    assert told["tasks"]["number"] == 1_000 and len(told["tasks"]["unusual"]) == 20
    assert told["tasks"]["unusual_left_out"] == 980
    assert len(json.dumps(told)) < 20_000
    assert told["findings"][0]["kind"] == "crash" and told["findings"][0]["first_step"]


def test_once_writes_it(capsys: pytest.CaptureFixture[str]) -> None:
    run_command("--simulate", "2", "--once", "--explain")
    told = json.loads(capsys.readouterr().out)
    assert told["type"] == "explanation" and told["run"] == "simulated"
    for words, said in ((["--explain"], "--explain needs --once"), (["--once", "--explain", "--plain"], "is JSON")):
        with pytest.raises(UsageError, match=said):
            run_command("--simulate", "2", *words)
