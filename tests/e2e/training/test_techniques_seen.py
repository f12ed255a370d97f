"""Each technique under agents, as `tfscale-console --once` tells it while it runs: in its words, and as no fault."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from training.train_command import seen

pytestmark = pytest.mark.alone

WORKERS = ("--strategy", "multi-worker", "--workers", "2")
STEPS = 30
FAULTS = {"straggler", "imbalance", "crash", "hang", "not_started"}


def trains(snapshot: Any) -> bool:
    """Decide whether each worker has made some steps, and their phases are known."""
    summaries = [task["summary"] for task in snapshot["tasks"] if task["task"].startswith("worker")]
    return all(summary is not None and summary["step"] >= STEPS for summary in summaries)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        pytest.param(
            ("digits", *WORKERS, "--with", "local-sgd=8"),
            "local SGD: 1 all-reduce in 8 steps, counted here as one step",
            marks=pytest.mark.matrix,
        ),
        pytest.param(
            ("digits", *WORKERS, "--with", "wire=bfloat16"),
            "gradients in bfloat16 on the wire",
            marks=pytest.mark.matrix,
        ),
        pytest.param(
            ("mlp", *WORKERS, "--with", "top-k=0.01"),
            "entries of gradients: .* all-gathered a step to each other replica",
            marks=pytest.mark.matrix,
        ),
        (("sparse", *WORKERS), r"sparse gradients \(IndexedSlices; dense they would be .*\): .* all-gathered a step"),
        (
            ("digits", *WORKERS, "--with", "accumulation=4,mixed=bfloat16"),
            "gradient accumulation: 1 all-reduce for 4 micro-batches; mixed precision: layers compute in bfloat16",
        ),
    ],
    ids=["local-sgd", "wire", "top-k", "sparse", "accumulation"],
)
def test_it_is_told_in_its_words_and_is_no_fault(words: Sequence[str], sentence: str) -> None:
    snapshot = seen(*words, until=trains)
    for task in snapshot["tasks"]:
        assert re.match(sentence, "; ".join(task["techniques"])), task["techniques"]
    assert not {each["kind"] for each in snapshot["diagnoses"]} & FAULTS, snapshot["headline"]


@pytest.mark.slow
def test_nobody_waits_for_a_slow_worker_of_parameter_servers_and_its_gradients_are_stale() -> None:
    def named(snapshot: Any) -> bool:
        return any(each["kind"] == "straggler" for each in snapshot["diagnoses"])

    snapshot = seen("asynchrony", "--batch", "256", "--slow", "worker:1=3x", until=named)
    (named_one,) = [each for each in snapshot["diagnoses"] if each["kind"] == "straggler"]
    assert named_one["subject"] == "worker:1" and "Nobody waits for it" in snapshot["headline"]
    staleness = {task["task"]: task["summary"]["staleness"] for task in snapshot["tasks"] if task["summary"]}
    assert staleness["worker:1"]["mean"] > staleness["worker:0"]["mean"]
