"""Packs: the number of collectives in a step."""

from __future__ import annotations

from typing import Any

import pytest
from tfscale.trainer.techniques import packs

pytestmark = pytest.mark.tensorflow


@pytest.mark.matrix
def test_gradients_are_reduced_in_packs_of_this_size(run_workers: Any) -> None:
    script = """
from tfscale.trainer.strategies import multi_worker

strategy = multi_worker.create(**parts(**TECHNIQUES).strategy_options())
training = Training(strategy, parts())
print(json.dumps(len(collectives(training.step().get_concrete_function(iter(training.data))))))
"""
    one = run_workers(f"TECHNIQUES = {{}}\n{script}")
    several = run_workers(f"TECHNIQUES = {{'packs': '100KiB'}}\n{script}")
    # 753 KB of gradients, of which the largest variable has 524 KB.
    assert one == 2  # gradients and loss
    assert several > one
    print(f"collectives of a step: {one}, in packs of 100 KiB {several}")


@pytest.mark.parametrize(("text", "size"), [("65536", 65_536), ("64KiB", 65_536), ("4MiB", 4_194_304)])
def test_sizes_may_have_a_unit(text: str, size: int) -> None:
    assert packs.strategy_options(packs.parse(text)) == {"bytes_per_pack": size}


@pytest.mark.parametrize("text", ["", "0", "4MB", "MiB", "-1"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write the bytes of a pack"):
        packs.parse(text)


@pytest.mark.parametrize("text", ["99999999999999999999", "2048MiB"])
def test_a_pack_that_tensorflow_cannot_count_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="at most 2147483647 bytes"):
        packs.parse(text)
