"""Sentences about sizes that were measured."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from tfscale.trainer.batch.size_search import SizeRow, SizeSearch
from tfscale.trainer.batch.size_table import Found, table
from tfscale.trainer.compare.measured_run import MeasuredRun

FLAGS = argparse.Namespace(program=None, start=32, rate=None, workers=None)


def searched(steps: Mapping[int, float]) -> SizeSearch:
    search = SizeSearch(lambda size: SizeRow(size, [MeasuredRun(str(size), 0, step=steps[size])]))
    search.run(32, max(steps))
    return search


def test_a_step_that_is_longer_than_that_of_a_larger_size_makes_the_choice_unsure() -> None:
    sure = table(searched({32: 0.1, 64: 0.1, 48: 0.1, 56: 0.1}), None, FLAGS)
    assert "not sure" not in sure
    head_room = Found(None, SizeRow(71, [MeasuredRun("head-room 71", 0, step=0.05)]))
    unsure = table(searched(dict.fromkeys((32, 48, 56, 64), 0.1)), head_room, FLAGS)
    assert "batch 32, 48, 56, 64: a step took longer" in unsure
    unsure = table(searched({32: 0.1, 64: 0.3, 128: 0.2, 96: 0.2, 112: 0.2}), None, FLAGS)
    assert "batch 64: a step took longer than one of a larger batch" in unsure


def test_a_size_below_the_fastest_says_why_it_is_taken() -> None:
    search = searched({32: 0.1, 64: 0.1, 48: 0.1, 56: 0.1})
    smaller = Found(search.rows[0], SizeRow(36, [MeasuredRun("36", 0, step=0.1)]))
    told = table(search, smaller, FLAGS)
    assert "take batch 32: 50% of the most examples/s; larger ones have no head-room of 10%" in told
    assert "head-room: batch 36 ran as well, with 12% more examples" in told
