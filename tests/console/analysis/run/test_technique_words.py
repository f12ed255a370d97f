"""Techniques of a program in the field's words."""

from __future__ import annotations

import pytest
from tfscale.console.analysis.run.technique_words import technique_words
from tfscale.core.records.probe_status import ProbeState, ProbeStatus


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, []),
        ({"wire_type": "float32"}, []),
        ({"micro_batches": 4}, ["gradient accumulation: 1 update for 4 micro-batches"]),
        (
            {"micro_batches": 4, "collective": "RING"},
            ["gradient accumulation: 1 all-reduce for 4 micro-batches"],
        ),
        ({"local_steps": 8}, ["local SGD: 1 all-reduce in 8 steps, counted here as one step"]),
        (
            {"local_steps": 8, "micro_batches": 2},
            ["local SGD: 1 all-reduce in 8 steps of 2 micro-batches, counted here as one step"],
        ),
        ({"dtype_policy": "float32"}, []),
        (
            {"dtype_policy": "mixed_bfloat16"},
            ["mixed precision: layers compute in bfloat16 (Keras's global policy)"],
        ),
        ({"wire_type": "bfloat16"}, ["gradients in bfloat16 on the wire"]),
        (
            {"gathered_bytes_per_step": 226_304, "dense_bytes_per_step": 66_560_000},
            [
                "sparse gradients (IndexedSlices; dense they would be 66.6 MB): 226 kB all-gathered a step to each "
                "other replica"
            ],
        ),
        (
            {"gathered_bytes_per_step": 15_056},
            ["entries of gradients: 15.1 kB all-gathered a step to each other replica"],
        ),
    ],
)
def test_a_step_that_is_more_than_a_batch_and_an_all_reduce_is_told(facts: dict[str, object], said: list[str]) -> None:
    assert list(technique_words(ProbeStatus(ProbeState.MEASURING, **facts))) == said  # type: ignore[arg-type]
